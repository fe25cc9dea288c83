-- take: decides the charges of one slot together and takes all of them or none; or adjusts
-- their states.
--
-- Redis builds every function and table of a script anew on every call, so a
-- script has none that it does not need. It is put together (script.go) for a
-- given sequence of algorithms and ops, from this file, which tells the time,
-- and from the sections of the algorithms' files, one after the other for every
-- charge: functions, once, and for a Credit or an Undo those of section adjust; then read;
-- then, if all charges fit (in a queue, without too long a wait), spend, and otherwise
-- touch, which writes only what must not wait. Where the op is another, debit takes
-- whether it fits or not, undo takes back one charge, and credit a number of events; a
-- Reset deletes the key. A section is written for charge N: _N ends the names of its
-- variables, KEYS[I_N] is its key, ARGV[A_N + 1] its first argument, and ARGV[M_N + 1] the
-- first of a receipt.
--
-- KEYS     one key for every charge
-- ARGV[1]  now in Unix microseconds; empty for the server's own clock
-- then the arguments of every charge; of one to undo, followed by its receipt: the time
-- at which it was made, the part of a bucket that was in use before (us, fraction), and
-- its age by the clock of the caller (us), which is more than the time since then if the
-- server's clock has stepped back
--
-- Returns integers only, all of them below 2^53: 1 admitted or 2 denied; how many
-- states could not be read and were replaced; for every charge its reading (report); and
-- now, if a charge may have to be undone, or is a Debit or Reset. The reading is that of
-- the state before a Spend, Peek or Reset, or a Debit of a bucket, and after any other op.
-- For a single Spend an algorithm may put all that into one integer: its brief, or if
-- denied -1 less its brief. The brief is the first integer of the reading, if the others
-- are 0.
--
-- Times and spans are microseconds, TTLs milliseconds. Numbers reach Redis
-- through %d: left to themselves they lose digits.

local call, format = redis.call, string.format
local now, slack

-- An error of a read says that the key holds another type, and counts as a state that
-- cannot be read. All other errors, such as that of a permission that the user lacks, end
-- the script: a state that was replaced because of them would open the limit.
local function pcall(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return reply
end

if ARGV[1] == '' then
  local time = call('TIME')
  -- One millisecond on every TTL makes up for its grid.
  now, slack = time[1] * 1000000 + time[2], 1
else
  -- A clock that is not the server's own says nothing about when a key may go.
  now, slack = ARGV[1] + 0, 86400000
end

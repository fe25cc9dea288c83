-- clock: the time of the server, and errors of reads. Every script begins with this file. It continues with
-- bucket_alone.lua, or with algorithms.lua, for places queues.lua, the files of the algorithms, take.lua, at_most.lua
-- or adjust.lua, and decisions.lua: see script.go, which also inserts numbers for the words in capitals that a header
-- lists as Inserted.
--
-- ARGV[1]  now in Unix microseconds, which only tests set; empty for the server's own clock
--
-- Times and spans are microseconds (us), TTLs milliseconds. All numbers are integers up to
-- MAX_INTEGER, which Lua represents exactly. Numbers of more than five digits are passed to Redis
-- through %d, because they would lose digits without it.
--
-- Redis builds all functions and tables of a script again for each call. The scripts therefore
-- have few of them, and functions return several values instead of a table.

local ARGV, redis = ARGV, redis -- a local variable takes less time than a global one
local now, slack -- slack is added to all TTLs (ms)
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- TTLs are rounded down to milliseconds
else
  now = ARGV[1] + 0
  slack = 86400000 -- the server does not expire keys by the clock of a test
end

-- Returns the text of the error of a read, or nil if reply has the wrong format or is from a key of another type.
-- Such a state counts as empty, and the next spend replaces it. After all other errors, such as a missing permission,
-- the decision fails: if the state then counted as empty, events beyond the limit would be admitted.
local function failure(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    return reply.err
  end
end

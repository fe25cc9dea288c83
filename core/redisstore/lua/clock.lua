-- clock: the time of the server, and errors of reads. Every script begins with this file.
--
-- ARGV[1]  now in Unix microseconds; empty for the server's own clock. Only tests set it.
--
-- Times and spans are microseconds (us), TTLs milliseconds. All numbers are integers below
-- 2^53, which Lua represents exactly. Numbers of more than five digits are passed to Redis
-- through %d: without it, they lose digits.
--
-- Redis builds all functions and tables of a script again for each call. So there are few of
-- them, and functions return several values instead of a table.

local now, slack
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- added to all TTLs, because they are rounded down to milliseconds
else
  now = ARGV[1] + 0
  slack = 86400000 -- the clock of a test does not tell when the server forgets a key
end

-- Returns 1, the number of states that are unreadable, for a value of the wrong format and
-- for the error of a read that says that the key has another type. The state is replaced
-- by the next spend. Raises all other errors, such as that of a missing permission: if they
-- counted as an empty state, they would open the limit.
local function unreadable(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return 1
end

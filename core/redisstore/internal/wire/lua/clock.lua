-- clock: the time of the server, and errors of reads. Every script begins with this file. It continues with
-- bucket_alone.lua, or with algorithms.lua, for places queues.lua, the files of the algorithms, take.lua, at_most.lua
-- or adjust.lua, and decisions.lua: see script.go, which also inserts numbers for the words in capitals that a header
-- lists as Inserted.
--
-- ARGV[1]  empty for the server's own clock; key for the same clock, by the expiry of a key, in milliseconds, on a
--          server that refuses TIME in scripts; or now in Unix microseconds, which only tests set
-- Inserted FAR_FUTURE (Unix ms)
--
-- Returns NOTIME and the error if the server refuses TIME.
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
  local time = redis.pcall('TIME')
  if time.err then
    return { err = 'NOTIME ' .. time.err }
  end
  now = time[1] * 1000000 + time[2]
  slack = 1 -- TTLs are rounded down to milliseconds
elseif ARGV[1] == 'key' then
  local own, expiry, exists
  for _, key in ipairs(KEYS) do
    expiry = redis.pcall('PEXPIRETIME', key)
    if type(expiry) == 'table' then
      return { err = 'ERR a server that refuses TIME in scripts needs PEXPIRETIME, of Redis 7.0: ' .. expiry.err }
    end
    if expiry >= 0 then
      own = key
      break
    end
    exists = exists or expiry == -1 and key
  end
  if not own and exists then
    own = exists
    redis.call('PEXPIREAT', own, 'FAR_FUTURE')
  elseif not own then
    own = KEYS[1]
    redis.call('SET', own, '', 'PX', 1000)
  end
  now = (redis.call('PEXPIRETIME', own) - redis.call('PTTL', own)) * 1000
  if expiry == -2 and not exists then
    redis.call('DEL', own)
  end
  slack = 1
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

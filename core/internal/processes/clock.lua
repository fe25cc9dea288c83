-- clock: sets now, the time of the server (Unix ms). If the server refuses TIME in scripts, the expiry of KEYS[1] shows it.
-- Included by other scripts, which return the error if the user lacks the permission for TIME.
-- Inserted: FAR_FUTURE (Unix ms)

local time, now = redis.pcall('TIME'), nil
if time.err then
  for _, text in ipairs({ 'ACL', 'NOPERM', "user executing the script can't" }) do
    if string.find(time.err, text, 1, true) then
      return time
    end
  end
  local expiry = redis.call('PEXPIRETIME', KEYS[1])
  if expiry == -2 then -- there is no such key
    redis.call('SET', KEYS[1], '', 'PX', 1000)
  elseif expiry == -1 then
    redis.call('PEXPIREAT', KEYS[1], 'FAR_FUTURE')
  end
  now = redis.call('PEXPIRETIME', KEYS[1]) - redis.call('PTTL', KEYS[1])
  if expiry == -2 then
    redis.call('DEL', KEYS[1])
  end
else
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

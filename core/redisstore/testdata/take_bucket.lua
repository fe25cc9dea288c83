local call, pcall, format = redis.call, redis.pcall, string.format
local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
local now, slack
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- added to all TTLs, because they are rounded down to milliseconds
else
  now = ARGV[1] + 0
  slack = 86400000 -- the clock of a test does not tell when the server forgets a key
end
local function unreadable(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return 1
end
local HORIZON = 3162240000000000 -- us, 100 years: the longest span, driver.Horizon
local function bucket_read(key, full, full_fraction, den)
  local value = pcall('GET', key)
  if not value then
    return 0, 0, false, 0
  end
  local us, fraction, since = tonumber(value), 0, 0
  if not us and type(value) == 'string' and #value < 60 then
    us, fraction, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
    us, fraction, since = tonumber(us), tonumber(fraction), tonumber(since) or 0
  end
  if not us or us % 1 ~= 0 or us > MAX_INTEGER or fraction > MAX_INTEGER
    or since ~= 0 and (since > us or us - since > HORIZON) then
    return 0, 0, false, unreadable(value)
  end
  if fraction >= den then -- written under another rate
    us, fraction = us + 1, 0
  end
  if since > now then -- the clock stepped back
    return us - since, fraction, true, 0
  end
  local used = us - now
  if used < 0 then
    return 0, 0, false, 0
  end
  if since == 0 and (used > full or used == full and fraction > full_fraction) then
    return full, full_fraction, true, 0
  end
  return used, fraction, false, 0
end
local function bucket_add(used, fraction, more, more_fraction, den)
  used, fraction = used + more, fraction + more_fraction
  if fraction >= den then
    return used + 1, fraction - den
  end
  return used, fraction
end
local function bucket_write(key, used, fraction, full, full_fraction)
  local value
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = format('%d %d', now + used, fraction)
  else
    value = format('%d', now + used)
  end
  call('PSETEX', key, format('%d', (used + 1000) / 1000 + slack), value)
end
local key, full, full_fraction, den = KEYS[1], ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
local after, after_fraction = bucket_add(used, fraction, ARGV[2], ARGV[3], den)
if after < full or after == full and after_fraction <= full_fraction then
  bucket_write(key, after, after_fraction, full, full_fraction)
  if fraction == 0 and corrupt == 0 then
    return used
  end
  return { now, 1, corrupt, used, fraction }
end
if moved then
  bucket_write(key, used, fraction, full, full_fraction)
end
if fraction == 0 then
  return -1 - used
end
return { now, 2, 0, used, fraction }

local now, slack
if ARGV[1] == '' then
  local time = redis.call('TIME')
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
local function bucket_read(key, full, full_fraction, den)
  local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
  local HORIZON = 3162240000000000 -- us, 100 years: the longest span
  local value = redis.pcall('GET', key)
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
local function bucket_fits(used, fraction, at, full, full_fraction, den)
  local after, after_fraction, max_delay = used + ARGV[at], fraction + ARGV[at + 1], ARGV[at + 5]
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  local fits = after < full or after == full and after_fraction <= full_fraction
  if max_delay and max_delay ~= '' then
    fits = fits and (used < max_delay + 0 or used == max_delay + 0 and fraction == 0)
  end
  return after, after_fraction, fits
end
local function bucket_write(key, used, fraction, full, full_fraction)
  local value
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = string.format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = string.format('%d %d', now + used, fraction)
  else
    value = string.format('%d', now + used)
  end
  redis.call('PSETEX', key, string.format('%d', (used + 1000) / 1000 + slack), value)
end
local key, full, full_fraction, den = KEYS[1], ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
local after, after_fraction, fits = bucket_fits(used, fraction, 2, full, full_fraction, den)
if fits then
  bucket_write(key, after, after_fraction, full, full_fraction)
  if fraction == 0 and corrupt == 0 then
    return used
  end
  return { now, 1 + corrupt, used, fraction }
end
if moved then
  bucket_write(key, used, fraction, full, full_fraction)
end
if fraction == 0 then
  return -1 - used
end
return { now, 0, used, fraction }

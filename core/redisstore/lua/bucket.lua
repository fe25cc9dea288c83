-- bucket: the state of a token bucket or leaky bucket, which refills or drains continuously
-- (GCRA, ITU-T I.371).
--
-- State      a string: the time at which the bucket is full again (of a leaky bucket: empty),
--            "<us>" or, if it is not a whole microsecond, "<us> <fraction>", in parts of den.
--            A bucket in debt, of which more is used than it holds, also has the time at
--            which that was so: "<us> <fraction> <us>".
-- Arguments  cost (us, fraction), full (us, fraction), den; for a leaky bucket, how long the
--            event may be delayed (us), for a token bucket an empty string or nothing
-- Reading    used (us, fraction)
-- TTL        until the bucket is full
--
-- A span is a number of microseconds and a fraction: used and fraction are the part of the
-- bucket that is in use, as the time that it takes to refill; full and full_fraction are the
-- whole bucket. den parts are one microsecond.

-- Returns used and fraction; moved, which is true if the state has to be written again even
-- if nothing is spent, because the clock stepped back; and how many states are unreadable.
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
  -- "nan" and "inf" are numbers, but no multiples of 1.
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
    -- The clock stepped back, or the limit was larger: an empty bucket.
    return full, full_fraction, true, 0
  end
  return used, fraction, false, 0
end

-- Returns what is used after the cost whose arguments begin at ARGV[at], and whether it fits:
-- the bucket holds it, and an event of a leaky bucket is not delayed for too long.
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

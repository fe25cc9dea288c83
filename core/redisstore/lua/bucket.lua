-- bucket: the state of a token bucket or leaky bucket, which refills or drains continuously
-- (GCRA, ITU-T I.371).
--
-- State      a string: the time at which the bucket is full again (a leaky bucket: empty),
--            "<us>" or, if it is not a whole microsecond, "<us> <fraction>". The fraction is in
--            units of 1/den microsecond. If more is used than the bucket holds, it is in debt, and
--            the state also contains the time of the write: "<us> <fraction> <us>".
-- Arguments  cost (us); full (us); den; for a leaky bucket, the longest delay of the event (us), for
--            a token bucket -1; if den is not 1, the fractions of cost and full
-- Reading    used (us); if den is not 1, its fraction
-- TTL        until the bucket is full
--
-- A span is a number of microseconds and a fraction in units of 1/den microsecond. used and
-- fraction are the part of the bucket that is in use, as the time that it takes to refill; full and
-- full_fraction are the whole bucket. The arguments of a charge begin at ARGV[at].

-- Returns cost, cost_fraction, full, full_fraction, den and max_delay of a charge, and the index in
-- ARGV just after its arguments.
local function bucket_arguments(at)
  local cost, full, den, max_delay = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
  if den == 1 then
    return cost, 0, full, 0, 1, max_delay, at + 4
  end
  return cost, ARGV[at + 4] + 0, full, ARGV[at + 5] + 0, den, max_delay, at + 6
end

-- Reads the state for a charge. Returns
--   used, fraction
--   after, after_fraction  used and fraction once the cost is added
--   fits                   whether the bucket holds the cost, and the delay of an event of a leaky
--                          bucket is not too long
--   moved                  whether the state has to be written again even if nothing is spent,
--                          because the clock stepped back
--   corrupt                1 if the state is unreadable, otherwise 0
local function bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local used, fraction, moved, corrupt = 0, 0, false, 0
  local value = redis.pcall('GET', key)
  if value then
    local us, part, since = tonumber(value), 0, 0
    if not us and type(value) == 'string' and #value < 60 then
      us, part, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      us, part, since = tonumber(us), tonumber(part), tonumber(since) or 0
    end
    -- "nan" and "inf" are numbers, but no multiples of 1.
    if not us or us % 1 ~= 0 or us > MAX_INTEGER or part > MAX_INTEGER
      or since ~= 0 and (since > us or us - since > HORIZON) then
      corrupt = unreadable(value)
    else
      if part >= den then -- written under another rate
        us, part = us + 1, 0
      end
      if since > now then -- the clock stepped back
        used, fraction, moved = us - since, part, true
      elseif us >= now then
        used, fraction = us - now, part
        if since == 0 and (used > full or used == full and fraction > full_fraction) then
          -- The clock stepped back or the limit was larger. The bucket counts as used up.
          used, fraction, moved = full, full_fraction, true
        end
      end
    end
  end
  local after, after_fraction = used + cost, fraction + cost_fraction
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  local fits = after < full or after == full and after_fraction <= full_fraction
  if max_delay >= 0 then
    fits = fits and (used < max_delay or used == max_delay and fraction == 0)
  end
  return used, fraction, after, after_fraction, fits, moved, corrupt
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

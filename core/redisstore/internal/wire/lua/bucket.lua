-- bucket: the state of a token bucket or leaky bucket, which refills or drains continuously
-- (GCRA, ITU-T I.371).
--
-- State      a string: the time at which the bucket is full again (a leaky bucket: empty),
--            "<us>" or, if it is not a whole microsecond, "<us> <fraction>". The fraction is in
--            units of 1/den microsecond. If more is used than the bucket holds, it is in debt, and
--            the state also contains the time of the write: "<us> <fraction> <us>".
-- Arguments  cost, full and headroom, the part of full that the caller's plan leaves to others (us); the longest
--            delay of an event of a leaky bucket (us), MAX_INTEGER without a bound and for a token bucket; den; if
--            den is not 1, the fractions of cost, full and headroom
-- Reading    used (us); if den is not 1, its fraction
-- TTL        until the bucket is full
--
-- A span is a number of microseconds and a fraction in units of 1/den microsecond. used and
-- fraction are the part of the bucket that is in use, as the time that it takes to refill; full and
-- full_fraction are the whole bucket, of which the caller may use most and most_fraction.
-- Inserted   HORIZON, MAX_INTEGER

-- Reads the state for the arguments that begin at ARGV[at]; appends the reading to the reply; calls
-- decide, as take.lua describes it, with used, fraction, the used after the cost, most and most_fraction
-- as further arguments; and does the action that decide returns. If decide returns 'rewrite' and a span,
-- that span is written.
local function bucket(key, at, op, decide)
  local cost, full, den = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 4] + 0
  local most, max_delay = full - ARGV[at + 2], ARGV[at + 3] + 0
  local cost_fraction, full_fraction, most_fraction, size = 0, 0, 0, 5
  if den > 1 then
    cost_fraction, full_fraction, size = ARGV[at + 5] + 0, ARGV[at + 6] + 0, 8
    most_fraction = full_fraction - ARGV[at + 7]
    if most_fraction < 0 then
      most, most_fraction = most - 1, most_fraction + den
    end
  end

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
  local place = #reply + 1
  reply[place] = used
  if den > 1 then
    reply[place + 1] = fraction
  end

  local after, after_fraction = used + cost, fraction + cost_fraction
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  -- An event of a leaky bucket must not have a longer delay than max_delay.
  local fits = (after < most or after == most and after_fraction <= most_fraction)
    and (used < max_delay or used == max_delay and fraction == 0)
  local action, other, other_fraction = decide(at + size, op, fits, moved, corrupt, used, fraction, after, most, most_fraction)
  if not action then
    return
  end

  if action == 'spend' then
    used, fraction = after, after_fraction
  elseif other then
    used, fraction = other, other_fraction
  end
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = string.format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = string.format('%d %d', now + used, fraction)
  else
    value = string.format('%d', now + used)
  end
  redis.call('PSETEX', key, string.format('%d', (used + 1000) / 1000 + slack), value)
end

algorithms.bucket = bucket -- a charge of take.lua; bucket_at_most.lua and bucket_adjust.lua replace it

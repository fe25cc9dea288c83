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

-- Reads the state for the arguments that begin at ARGV[at]; appends the reading to the reply; calls
-- decide, as take.lua describes it, with used, fraction, the used after the cost, most and most_fraction
-- as further arguments; and does the action that decide returns. If decide returns 'rewrite' and a span,
-- that span is written.
local function bucket(key, at, op, decide)
  INCLUDE bucket_arguments
  INCLUDE bucket_read
  if failed then
    error(failed, 0)
  end
  local place = #reply + 1
  reply[place] = used
  if den > 1 then
    reply[place + 1] = fraction
  end
  local action, other, other_fraction = decide(at + size, op, fits, moved, corrupt, used, fraction, after, most, most_fraction)
  if not action then
    return
  end
  if action == 'spend' then
    used, fraction = after, after_fraction
  elseif other then
    used, fraction = other, other_fraction
  end
  INCLUDE bucket_write
  if failed then
    error(failed, 0)
  end
end

algorithms.bucket = bucket -- a charge of take.lua; bucket_at_most.lua and bucket_adjust.lua replace it

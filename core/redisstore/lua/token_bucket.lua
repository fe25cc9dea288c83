-- token_bucket: a bucket that refills continuously (GCRA, ITU-T I.371).
--
-- State     a string: the time at which the bucket is full again, "<us>" or, when
--           it does not fall on a microsecond, "<us> <fraction>", in parts of den;
--           of a bucket in debt, of which more is in use than it holds,
--           "<us> <fraction> <time at which that was so>"
-- Arguments cost (us, fraction), full (us, fraction), den: what the cost and the
--           whole bucket take to refill; of a leaky bucket, how long the event may
--           wait (us)
-- Reading   used (us, fraction): the part of the bucket that is in use; before a Debit,
--           because its receipt says so
-- TTL       until the bucket is full
--
-- A foreign or damaged value counts as no value, and is replaced on the next
-- spend. "nan" and "inf" are no multiples of 1.

--- functions
local function bucket_write(key, used, fraction, full, full_fraction)
  local value
  if used > full or used == full and fraction > full_fraction then
    value = format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = format('%d %d', now + used, fraction)
  else
    value = format('%d', now + used)
  end
  call('PSETEX', key, format('%d', (used + 1000) / 1000 + slack), value)
end

--- adjust
-- The bucket with used less back in use.
local function bucket_give(key, used, fraction, back, back_fraction, den, full, full_fraction)
  used, fraction = used - back, fraction - back_fraction
  if fraction < 0 then
    used, fraction = used - 1, fraction + den
  end
  if used < 0 or used == 0 and fraction == 0 then
    call('DEL', key)
    return 0, 0
  end
  bucket_write(key, used, fraction, full, full_fraction)
  return used, fraction
end

--- read
local used_N, fraction_N, moved_N, corrupt_N = 0, 0, false, 0
local full_N, full_fraction_N, den_N = ARGV[A_N + 3] + 0, ARGV[A_N + 4] + 0, ARGV[A_N + 5] + 0
do
  local value = pcall('GET', KEYS[I_N])
  if value then
    local us, fraction, since = tonumber(value), 0, 0
    if not us and type(value) == 'string' and #value < 60 then
      us, fraction, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      us, fraction, since = tonumber(us), tonumber(fraction), tonumber(since) or 0
    end
    if us and us % 1 == 0 and us < 9007199254740992 and fraction < 9007199254740992
      and (since == 0 or since <= us and us - since <= 3162240000000000) then
      if fraction >= den_N then -- written under another rate
        us, fraction = us + 1, 0
      end
      if since > now then
        used_N, fraction_N, moved_N = us - since, fraction, true -- the clock stepped back
      elseif us >= now then
        used_N, fraction_N = us - now, fraction
        if since == 0 and (used_N > full_N or used_N == full_N and fraction > full_fraction_N) then
          -- The clock stepped back, or the limit was larger: an empty bucket.
          used_N, fraction_N, moved_N = full_N, full_fraction_N, true
        end
      end
    else
      corrupt_N = 1
    end
  end
end
local after_N, after_fraction_N = used_N + ARGV[A_N + 1], fraction_N + ARGV[A_N + 2]
if after_fraction_N >= den_N then
  after_N, after_fraction_N = after_N + 1, after_fraction_N - den_N
end

--- fits after_N < full_N or after_N == full_N and after_fraction_N <= full_fraction_N

--- wait (used_N < ARGV[A_N + 6] + 0 or used_N == ARGV[A_N + 6] + 0 and fraction_N == 0)

--- spend
if after_fraction_N > 0 then
  bucket_write(KEYS[I_N], after_N, after_fraction_N, full_N, full_fraction_N)
else
  call('PSETEX', KEYS[I_N], format('%d', (after_N + 1000) / 1000 + slack), format('%d', now + after_N))
end

--- touch
if moved_N then
  bucket_write(KEYS[I_N], used_N, fraction_N, full_N, full_fraction_N)
end

--- debit
if after_N >= 3162240000000000 then -- 100 years
  after_N, after_fraction_N = 3162240000000000, 0
end
bucket_write(KEYS[I_N], after_N, after_fraction_N, full_N, full_fraction_N)

--- undo
do
  local back, back_fraction = ARGV[A_N + 1] + 0, ARGV[A_N + 2] + 0
  local last = true
  if QUEUE then
    -- In a queue those behind have been told their turns: a place can only be given
    -- back while it is the last. QUEUE is true for a leaky bucket.
    local us, fraction = ARGV[M_N + 1] + ARGV[M_N + 2] + back, ARGV[M_N + 3] + back_fraction
    if fraction >= den_N then
      us, fraction = us + 1, fraction - den_N
    end
    last = now + used_N == us and fraction_N == fraction
  end
  -- Without the charge, the bucket would have stood idle for the time since then
  -- that was not in use. What would have refilled in it is not given back.
  local idle, fraction = math.max(now - ARGV[M_N + 1], ARGV[M_N + 4] + 0) - ARGV[M_N + 2], -ARGV[M_N + 3]
  if fraction < 0 then
    idle, fraction = idle - 1, fraction + den_N
  end
  if idle >= 0 then
    back, back_fraction = back - idle, back_fraction - fraction
    if back_fraction < 0 then
      back, back_fraction = back - 1, back_fraction + den_N
    end
  end
  if last and back >= 0 then
    used_N, fraction_N = bucket_give(KEYS[I_N], used_N, fraction_N, back, back_fraction, den_N, full_N, full_fraction_N)
  end
end

--- credit
used_N, fraction_N = bucket_give(KEYS[I_N], used_N, fraction_N, ARGV[A_N + 1] + 0, ARGV[A_N + 2] + 0, den_N, full_N, full_fraction_N)

--- corrupt corrupt_N

--- report used_N, fraction_N

--- brief corrupt_N == 0 and fraction_N == 0 and used_N

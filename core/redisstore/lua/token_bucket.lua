-- token_bucket: a bucket that refills continuously (GCRA, ITU-T I.371).
--
-- State     a string: the time at which the bucket is full again, "<us>" or, when
--           it does not fall on a microsecond, "<us> <fraction>", in parts of den
-- Arguments cost (us, fraction), full (us, fraction), den: what the cost and the
--           whole bucket take to refill
-- Reading   used (us, fraction): the part of the bucket that is in use
-- TTL       until the bucket is full
--
-- A foreign or damaged value counts as no value, and is replaced on the next
-- spend. "nan" and "inf" are no multiples of 1.

--- functions
local function bucket_write(key, us, fraction, ttl)
  if fraction > 0 then
    call('PSETEX', key, format('%d', ttl), format('%d %d', us, fraction))
  else
    call('PSETEX', key, format('%d', ttl), format('%d', us))
  end
end

--- read
local used_N, fraction_N, moved_N, corrupt_N = 0, 0, false, 0
local full_N, full_fraction_N, den_N = ARGV[A_N + 3] + 0, ARGV[A_N + 4] + 0, ARGV[A_N + 5] + 0
do
  local value = pcall('GET', KEYS[I_N])
  if value then
    local us, fraction = tonumber(value), 0
    if not us and type(value) == 'string' and #value < 40 then
      us, fraction = string.match(value, '^(%d+) (%d+)$')
      us, fraction = tonumber(us), tonumber(fraction)
    end
    if us and us % 1 == 0 and us < 9007199254740992 and fraction < 9007199254740992 then
      if fraction >= den_N then -- written under another rate
        us, fraction = us + 1, 0
      end
      if us >= now then
        used_N, fraction_N = us - now, fraction
        if used_N > full_N or used_N == full_N and fraction > full_fraction_N then
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

--- spend
if after_fraction_N > 0 then
  bucket_write(KEYS[I_N], now + after_N, after_fraction_N, (after_N + 1000) / 1000 + slack)
else
  call('PSETEX', KEYS[I_N], format('%d', (after_N + 1000) / 1000 + slack), format('%d', now + after_N))
end

--- touch
if moved_N then
  bucket_write(KEYS[I_N], now + used_N, fraction_N, (used_N + 1000) / 1000 + slack)
end

--- refund
-- Without the charge, the bucket would have stood idle for the time since then
-- that was not in use. What would have refilled in it is not given back.
local back_N, back_fraction_N = ARGV[A_N + 1] + 0, ARGV[A_N + 2] + 0
do
  local idle, fraction = now - ARGV[A_N + 6] - ARGV[A_N + 7], -ARGV[A_N + 8]
  if fraction < 0 then
    idle, fraction = idle - 1, fraction + den_N
  end
  if idle >= 0 then
    back_N, back_fraction_N = back_N - idle, back_fraction_N - fraction
    if back_fraction_N < 0 then
      back_N, back_fraction_N = back_N - 1, back_fraction_N + den_N
    end
  end
end
-- In a queue those behind have been told their turns: the charge can only be
-- taken back while it is the last. QUEUE is true for a leaky bucket.
if QUEUE then
  local us, fraction = ARGV[A_N + 6] + ARGV[A_N + 7] + ARGV[A_N + 1], ARGV[A_N + 8] + ARGV[A_N + 2]
  if fraction >= den_N then
    us, fraction = us + 1, fraction - den_N
  end
  if now + used_N ~= us or fraction_N ~= fraction then
    back_N = -1
  end
end
if back_N >= 0 then
  local left, fraction = used_N - back_N, fraction_N - back_fraction_N
  if fraction < 0 then
    left, fraction = left - 1, fraction + den_N
  end
  if left < 0 or left == 0 and fraction == 0 then
    call('DEL', KEYS[I_N])
  else
    bucket_write(KEYS[I_N], now + left, fraction, (left + 1000) / 1000 + slack)
  end
end

--- give
used_N, fraction_N = used_N - ARGV[A_N + 1], fraction_N - ARGV[A_N + 2]
if fraction_N < 0 then
  used_N, fraction_N = used_N - 1, fraction_N + den_N
end
if used_N < 0 or used_N == 0 and fraction_N == 0 then
  used_N, fraction_N = 0, 0
  call('DEL', KEYS[I_N])
else
  bucket_write(KEYS[I_N], now + used_N, fraction_N, (used_N + 1000) / 1000 + slack)
end

--- corrupt corrupt_N

--- report used_N, fraction_N

--- brief corrupt_N == 0 and fraction_N == 0 and used_N

-- token_bucket: a bucket that refills continuously (GCRA, ITU-T I.371).
--
-- State     a string: the time at which the bucket is full again, "<us>" or, when
--           it does not fall on a microsecond, "<us> <fraction>", in parts of den
-- Arguments cost (us, fraction), full (us, fraction), den: what the cost and the
--           whole bucket take to refill
-- Reading   used (us, fraction): the part of the bucket that is in use
-- TTL       until the bucket is full

algorithms.t = { arguments = 5 }

-- A foreign or damaged value counts as no value, and is replaced on the next
-- spend. Only decimal digits pass: tonumber alone would read "nan" and "0x10".
local function bucket_state(key)
  local value = redis.pcall('GET', key)
  if not value then
    return 0, 0, false
  end
  if type(value) == 'string' and #value < 34 then
    local us, fraction = string.match(value, '^(%d+) ?(%d*)$')
    if us and #us < 17 and #fraction < 17 then
      return tonumber(us), tonumber(fraction) or 0, false
    end
  end
  return 0, 0, true
end

local function bucket_write(key, us, fraction, now, slack)
  local value
  if fraction > 0 then
    value = string.format('%d %d', us, fraction)
  else
    value = string.format('%d', us)
  end
  redis.call('SET', key, value, 'PX', string.format('%d', math.ceil((us - now + 1) / 1000) + slack))
end

function algorithms.t.read(key, at, now)
  local full, full_fraction, den = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local us, fraction, corrupt = bucket_state(key)
  if fraction >= den then -- written under another rate
    us, fraction = us + 1, 0
  end
  local used, moved = us - now, false
  if used < 0 then
    used, fraction = 0, 0
  elseif used > full or used == full and fraction > full_fraction then
    -- The clock stepped back, or the limit was larger: an empty bucket.
    used, fraction, moved = full, full_fraction, true
  end
  local plan = {
    used = used, fraction = fraction, den = den, moved = moved, corrupt = corrupt,
    cost = tonumber(ARGV[at]), cost_fraction = tonumber(ARGV[at + 1]),
  }
  local after, after_fraction = used + plan.cost, fraction + plan.cost_fraction
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  plan.after, plan.after_fraction = after, after_fraction
  return plan, after < full or after == full and after_fraction <= full_fraction
end

function algorithms.t.spend(key, plan, now, slack)
  bucket_write(key, now + plan.after, plan.after_fraction, now, slack)
end

function algorithms.t.touch(key, plan, now, slack)
  if plan.moved then
    bucket_write(key, now + plan.used, plan.fraction, now, slack)
  end
end

function algorithms.t.refund(key, plan, now, slack)
  local used, fraction = plan.used - plan.cost, plan.fraction - plan.cost_fraction
  if fraction < 0 then
    used, fraction = used - 1, fraction + plan.den
  end
  if used < 0 or used == 0 and fraction == 0 then
    redis.call('DEL', key)
  else
    bucket_write(key, now + used, fraction, now, slack)
  end
end

function algorithms.t.report(plan, out)
  out[#out + 1] = plan.used
  out[#out + 1] = plan.fraction
end

-- bucket_adjust: a token bucket or leaky bucket as a charge of adjust.lua.
--
-- Reading  used (us, fraction); for a debit, the value before the op, which the receipt needs

-- Subtracts one span from another.
local function bucket_subtract(us, fraction, less, less_fraction, den)
  us, fraction = us - less, fraction - less_fraction
  if fraction < 0 then
    return us - 1, fraction + den
  end
  return us, fraction
end

function algorithms.bucket(key, arguments, op)
  local back, back_fraction, full, full_fraction, den, max_delay, at = bucket_arguments(arguments)
  local used, fraction, after, after_fraction, _, _, corrupt =
    bucket_read(key, back, back_fraction, full, full_fraction, den, max_delay)

  if op == 'debit' then
    replaced = replaced + corrupt
    if after >= HORIZON then
      after, after_fraction = HORIZON, 0
    end
    bucket_write(key, after, after_fraction, full, full_fraction)
  end

  local free = op == 'credit'
  if op == 'undo' then
    local time, before, before_fraction, age = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
    at = at + 4
    free = true
    if max_delay >= 0 then
      -- Later events of a leaky bucket already have departure times, so a place in the queue can be
      -- freed only while it is the last.
      local others, others_fraction = bucket_subtract(now + used, fraction, back, back_fraction, den)
      free = others == time + before and others_fraction == before_fraction
    end
    -- Without the charge, the bucket would have become full earlier and stopped refilling. The undo
    -- therefore frees the cost minus the refill since that moment.
    local idle, idle_fraction = bucket_subtract(math.max(now - time, age), 0, before, before_fraction, den)
    if idle >= 0 then
      back, back_fraction = bucket_subtract(back, back_fraction, idle, idle_fraction, den)
    end
    free = free and back >= 0
  end

  if free then
    used, fraction = bucket_subtract(used, fraction, back, back_fraction, den)
    if used < 0 or used == 0 and fraction == 0 then
      redis.call('DEL', key)
      used, fraction = 0, 0
    else
      bucket_write(key, used, fraction, full, full_fraction)
    end
  end
  local size = #reply
  reply[size + 1] = used
  if den > 1 then
    reply[size + 2] = fraction
  end
  return at
end

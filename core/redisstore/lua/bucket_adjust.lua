-- bucket_adjust: debit, credit and undo of a token bucket or leaky bucket.
--
-- Receipt  time of the charge (us), used before it (us, fraction), age of the charge by the
--          clock of the caller (us)

-- Frees back of the bucket. The charge then describes the new state.
local function bucket_free(charge, back, back_fraction)
  local used, fraction = charge.used - back, charge.fraction - back_fraction
  if fraction < 0 then
    used, fraction = used - 1, fraction + charge.den
  end
  if used < 0 or used == 0 and fraction == 0 then
    call('DEL', charge.key)
    used, fraction = 0, 0
  else
    bucket_write(charge.key, used, fraction, charge.full, charge.full_fraction)
  end
  charge.used, charge.fraction = used, fraction
end

-- The charge describes the state before the debit, because its receipt does.
function algorithms.bucket.debit(charge)
  local after, after_fraction = charge.after, charge.after_fraction
  if after >= HORIZON then
    after, after_fraction = HORIZON, 0
  end
  bucket_write(charge.key, after, after_fraction, charge.full, charge.full_fraction)
  return charge
end

function algorithms.bucket.credit(charge, at)
  bucket_free(charge, ARGV[at] + 0, ARGV[at + 1] + 0)
  return charge
end

function algorithms.bucket.undo(charge, at, receipt)
  local back, back_fraction, den = ARGV[at] + 0, ARGV[at + 1] + 0, charge.den
  local time, before, before_fraction = ARGV[receipt] + 0, ARGV[receipt + 1] + 0, ARGV[receipt + 2] + 0
  if ARGV[at + 5] ~= '' then
    -- Later events of a leaky bucket know their departure times. A place in the queue can
    -- only be freed while it is the last.
    local us, fraction = bucket_add(time + before, before_fraction, back, back_fraction, den)
    if now + charge.used ~= us or charge.fraction ~= fraction then
      return charge
    end
  end
  -- Without the charge, the bucket would have become full earlier and stopped refilling. The
  -- refill since that moment is not freed.
  local idle, fraction = math.max(now - time, ARGV[receipt + 3] + 0) - before, -before_fraction
  if fraction < 0 then
    idle, fraction = idle - 1, fraction + den
  end
  if idle >= 0 then
    back, back_fraction = back - idle, back_fraction - fraction
    if back_fraction < 0 then
      back, back_fraction = back - 1, back_fraction + den
    end
  end
  if back >= 0 then
    bucket_free(charge, back, back_fraction)
  end
  return charge
end

-- bucket_take: a token bucket or leaky bucket as a charge of take.lua.

function algorithms.bucket(key, at, op, decide)
  local cost, cost_fraction, full, full_fraction, den, max_delay, after_arguments = bucket_arguments(at)
  local used, fraction, after, after_fraction, fits, moved, corrupt =
    bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local size = #reply
  reply[size + 1] = used
  if den > 1 then
    reply[size + 2] = fraction
  end
  local action = decide(after_arguments, op, fits, moved, corrupt)
  if action == 'spend' then
    bucket_write(key, after, after_fraction, full, full_fraction)
  elseif action == 'rewrite' then
    bucket_write(key, used, fraction, full, full_fraction)
  end
end

-- bucket_take: a token bucket or leaky bucket as a charge of take.lua.

function algorithms.bucket(key, at, op, decide)
  local full, full_fraction, den = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] + 0
  local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
  local after, after_fraction, fits = bucket_fits(used, fraction, at, full, full_fraction, den)
  local size = #reply
  reply[size + 1], reply[size + 2] = used, fraction
  local action = decide(at + 6, op, fits, moved, corrupt)
  if action == 'spend' then
    bucket_write(key, after, after_fraction, full, full_fraction)
  elseif action == 'rewrite' then
    bucket_write(key, used, fraction, full, full_fraction)
  end
end

-- bucket_charge: a token bucket or leaky bucket as a charge of take.lua and adjust.lua. See
-- bucket.lua for the state.
--
-- Arguments  cost (us, fraction), full (us, fraction), den; for a leaky bucket, how long the
--            event may be delayed (us), for a token bucket an empty string
-- Reading    used (us, fraction)

local function bucket_charge_read(key, at)
  local full, full_fraction, den = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] + 0
  local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
  local after, after_fraction = bucket_add(used, fraction, ARGV[at], ARGV[at + 1], den)
  local fits = after < full or after == full and after_fraction <= full_fraction
  local max_delay = ARGV[at + 5]
  if max_delay ~= '' and (used > max_delay + 0 or used == max_delay + 0 and fraction > 0) then
    fits = false
  end
  return {
    key = key, used = used, fraction = fraction, moved = moved, corrupt = corrupt, fits = fits,
    after = after, after_fraction = after_fraction, full = full, full_fraction = full_fraction, den = den,
  }
end

local function bucket_charge_spend(charge)
  bucket_write(charge.key, charge.after, charge.after_fraction, charge.full, charge.full_fraction)
end

local function bucket_charge_rewrite(charge)
  bucket_write(charge.key, charge.used, charge.fraction, charge.full, charge.full_fraction)
end

local function bucket_charge_report(charge, reply, size)
  reply[size + 1], reply[size + 2] = charge.used, charge.fraction
  return size + 2
end

algorithms.bucket = {
  arguments = 6,
  read = bucket_charge_read,
  spend = bucket_charge_spend,
  rewrite = bucket_charge_rewrite,
  report = bucket_charge_report,
}

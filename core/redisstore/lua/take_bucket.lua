-- take_bucket: decides one spend of one bucket, without a receipt. Nearly all decisions are of this
-- kind. take.lua decides in the same way, but with a longer reply and more CPU time.
--
-- KEYS[1]  key of the bucket
-- ARGV     clock, then the arguments of bucket.lua
--
-- Returns  used (us) before the spend if it is admitted, and -1 - used if it is denied. If the
--          fraction is not 0 or the state was unreadable, returns the reply of take.lua.

local key = KEYS[1]
local used, fraction, after, after_fraction, fits, moved, corrupt, full, full_fraction = bucket_read(key, 2)

if fits then
  bucket_write(key, after, after_fraction, full, full_fraction)
  if fraction == 0 and corrupt == 0 then
    return used
  end
  return { now, 1 + corrupt, used, fraction }
end

if moved then
  bucket_write(key, used, fraction, full, full_fraction)
end
if fraction == 0 then
  return -1 - used
end
return { now, 0, used, fraction }

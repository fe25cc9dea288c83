-- bucket_write: writes used and fraction as the state of key. Sets failed to the text of an error or nil.
-- Included by bucket.lua and bucket_alone.lua

if used > full or used == full and fraction > full_fraction then -- in debt
  value = string.format('%d %d %d', now + used, fraction, now)
elseif fraction > 0 then
  value = string.format('%d %d', now + used, fraction)
else
  value = string.format('%d', now + used)
end
failed = redis.pcall('PSETEX', key, string.format('%d', (used + 1000) / 1000 + slack), value).err

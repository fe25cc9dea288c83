-- bucket_arguments: the arguments of bucket.lua, which begin at ARGV[at], as local variables. size is their number.
-- Included by bucket.lua and bucket_alone.lua

local cost, full, den = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 4] + 0
local most, max_delay = full - ARGV[at + 2], ARGV[at + 3] + 0
local cost_fraction, full_fraction, most_fraction, size = 0, 0, 0, 5
if den > 1 then
  cost_fraction, full_fraction, size = ARGV[at + 5] + 0, ARGV[at + 6] + 0, 8
  most_fraction = full_fraction - ARGV[at + 7]
  if most_fraction < 0 then
    most, most_fraction = most - 1, most_fraction + den
  end
end

-- take_bucket: decides independent spends of buckets, one after the other, without receipts. Nearly
-- all decisions are of this kind. take.lua decides in the same way, but with a longer reply and more
-- CPU time.
--
-- KEYS     a key for each spend, in order
-- ARGV[1]  clock
-- then, for each sequence of spends with equal arguments, the number of these spends and the
-- arguments of bucket.lua
--
-- Returns  for each spend, used (us) before the spend if it is admitted, and -1 - used if it is
--          denied. If the fraction is not 0 or the state was unreadable, returns the outcome and the
--          reading, as in take.lua. If the spend failed, returns the text of the error. A single
--          spend is not in an array. If the server is a replica, returns READONLY.

local function spend(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local used, fraction, after, after_fraction, fits, moved, corrupt =
    bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  if fits then
    bucket_write(key, after, after_fraction, full, full_fraction)
    if fraction == 0 and corrupt == 0 then
      return used
    end
    return { 1 + corrupt, used, fraction }
  end
  if moved then
    bucket_write(key, used, fraction, full, full_fraction)
  end
  if fraction == 0 then
    return -1 - used
  end
  return { 0, used, fraction }
end

local reply, at = {}, 2
while ARGV[at] do
  local cost, cost_fraction, full, full_fraction, den, max_delay = bucket_arguments(at + 1)
  for i = #reply + 1, #reply + ARGV[at] do
    local done, result = pcall(spend, KEYS[i], cost, cost_fraction, full, full_fraction, den, max_delay)
    if not done then
      result = type(result) == 'table' and result.err or result -- see decisions.lua
      if string.find(result, 'READONLY', 1, true) then
        return { err = result }
      end
    end
    reply[i] = result
  end
  at = at + 5
end
return #KEYS == 1 and reply[1] or reply

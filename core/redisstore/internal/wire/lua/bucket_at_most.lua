-- bucket_at_most: a token bucket or leaky bucket as a charge of at_most.lua, which needs its room.

-- Returns the largest n, up to most, so that n times a span fits into another one, and the rest of that.
-- It adds and compares spans only: their products would exceed MAX_INTEGER.
local function bucket_divide(rest, rest_fraction, us, fraction, den, most)
  if most < 1 or rest < us or rest == us and rest_fraction < fraction then
    return 0, rest, rest_fraction
  end
  local n, twice, twice_fraction = 0, us + us, fraction + fraction
  if most > 1 then
    if twice_fraction >= den then
      twice, twice_fraction = twice + 1, twice_fraction - den
    end
    n, rest, rest_fraction = bucket_divide(rest, rest_fraction, twice, twice_fraction, den, math.floor(most / 2))
    n = n + n
  end
  if n < most and (rest > us or rest == us and rest_fraction >= fraction) then
    n, rest, rest_fraction = n + 1, rest - us, rest_fraction - fraction
    if rest_fraction < 0 then
      rest, rest_fraction = rest - 1, rest_fraction + den
    end
  end
  return n, rest, rest_fraction
end

function algorithms.bucket(key, at, op, decide, _, most)
  bucket(key, at, op, function(next, _, fits, moved, corrupt, used, fraction, _, limit, limit_fraction)
    local unit, den, unit_fraction = ARGV[at] + 0, ARGV[at + 4] + 0, 0
    if den > 1 then
      unit_fraction = ARGV[at + 5] + 0
    end
    local free, free_fraction = limit - used, limit_fraction - fraction
    if free_fraction < 0 then
      free, free_fraction = free - 1, free_fraction + den
    end
    local room, rest, rest_fraction = bucket_divide(free, free_fraction, unit, unit_fraction, den, most)
    local action, cost = decide(next, op, fits, moved, corrupt, room)
    if not cost then
      return action
    elseif cost < room then
      _, rest, rest_fraction = bucket_divide(free, free_fraction, unit, unit_fraction, den, cost)
    end
    used, fraction = limit - rest, limit_fraction - rest_fraction
    if fraction < 0 then
      used, fraction = used - 1, fraction + den
    end
    return 'rewrite', used, fraction
  end)
end

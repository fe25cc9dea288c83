-- at_most: a decision of decisions.lua that takes the largest cost, up to a given one, that all charges
-- that are no shadows admit, or none of them if they do not admit 1.
--
-- ARGV     the given cost; for each charge, its algorithm, its op (spend or shadow_spend), and the
--          arguments of the algorithm for a cost of 1
--
-- Reply    the readings are from before the decision, for a cost of 1. If a shadow charge does not admit
--          the taken cost, its reading is for the taken cost.

local most -- the largest cost that the charges read so far admit
local first, place -- of the charge that is read: the indexes of its arguments and of its reading

-- decide of take.lua. room is the cost that the charge of the caller admits, or most if it admits more.
local function decide(at, op, _, moved, corrupt, room)
  local own, own_first, own_place = key, first, place
  if op == 'spend' then
    most = math.max(0, math.min(most, room))
  end
  if key < last then
    key, first, place = key + 1, at + 2, #reply + 1
    algorithms[ARGV[at]](KEYS[key], first, ARGV[at + 1], decide, nil, most)
  end
  denied = most == 0
  if denied then
    return moved and 'rewrite'
  elseif most > room then -- a shadow that is not charged
    local size = #reply
    algorithms[ARGV[own_first - 2]](KEYS[own], own_first, op, function() end, most, most)
    for i = size + 1, #reply do
      reply[own_place + i - size - 1], reply[i] = reply[i], nil
    end
    return moved and 'rewrite'
  end
  replaced = replaced + corrupt
  return 'spend', most
end

local function decision(at)
  key, most, first, place = key + 1, ARGV[at] + 0, at + 3, #reply + 1
  algorithms[ARGV[at + 1]](KEYS[key], first, ARGV[at + 2], decide, nil, most)
end

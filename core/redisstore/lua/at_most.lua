-- at_most: a decision of decisions.lua that takes the largest cost, up to a given one, that all charges
-- that are no shadows admit, or none of them if they do not admit 1.
--
-- ARGV     the given cost; for each charge, its algorithm, its op (spend or shadow_spend), and the
--          arguments of the algorithm for a cost of 1
--
-- Reply    the readings are from before the decision, for a cost of 1. If a shadow charge does not admit
--          the taken cost, its reading is for the taken cost.

local most -- the largest cost that the charges read so far admit

-- Reads the remaining charges of the decision, after which the taken cost is known. Returns the cost that
-- the charge of the caller has to be charged, or 0; and the taken cost, if the caller's charge is that of
-- a shadow which does not admit it. at is the position in ARGV just after the arguments of the caller's
-- charge. room is the cost that this charge admits, or most if it admits more; corrupt is 1 if its state
-- was unreadable, otherwise 0.
local function decide(at, op, room, corrupt)
  if op == 'spend' then
    most = math.max(0, math.min(most, room))
  end
  if key < last then
    key = key + 1
    algorithms[ARGV[at]](KEYS[key], at + 2, ARGV[at + 1], decide, most)
  end
  denied = most == 0
  if denied then
    return 0
  elseif most > room then
    return 0, most
  end
  replaced = replaced + corrupt
  return most
end

local function decision(at)
  key, most = key + 1, ARGV[at] + 0
  algorithms[ARGV[at + 1]](KEYS[key], at + 3, ARGV[at + 2], decide, most)
end

-- take: a decision of decisions.lua that applies all of its charges or none.
--
-- ARGV     for each charge, its algorithm, its op and the arguments of the algorithm. The op is
--            spend         the charge has to fit; it is applied if the decision is admitted
--            wait          a spend of a caller who waits for places, see queues.lua
--            peek          the charge has to fit; it is never applied
--            shadow_spend  the charge is applied if the decision is admitted and the charge fits
--            shadow_peek   the charge is only reported
--
-- Reply    the readings are from before the decision.

-- Reads the remaining charges of the decision, after which the outcome is known. Returns 'spend' if
-- the charge of the caller has to be applied, and 'rewrite' if its state has to be written again
-- because the clock stepped back. at is the position in ARGV just after the arguments of the
-- caller's charge. fits says whether the cost is within the limit, moved whether the clock stepped
-- back; corrupt is 1 if the state was unreadable, otherwise 0. The decide of at_most.lua also gets the largest cost that
-- fits, and returns the cost that is taken after 'spend'.
local function decide(at, op, fits, moved, corrupt)
  if not fits and (op == 'spend' or op == 'peek') then
    denied = true
  end
  if key < last then
    key = key + 1
    algorithms[ARGV[at]](KEYS[key], at + 2, ARGV[at + 1], decide)
  end
  if denied or not fits then
    return moved and 'rewrite'
  end
  if op == 'spend' or op == 'shadow_spend' then
    replaced = replaced + corrupt
    return 'spend'
  end
end

local function decision(at)
  key = key + 1
  algorithms[ARGV[at]](KEYS[key], at + 2, ARGV[at + 1], decide)
end

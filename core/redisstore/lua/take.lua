-- take: makes a list of independent decisions, one after the other. A decision applies all of its
-- charges or none. A later decision sees the states that earlier decisions have written.
--
-- KEYS     a key for each charge, in order
-- ARGV[1]  clock
-- then, for each charge, its algorithm, its op and the arguments of the algorithm; between two
-- decisions an argument 'and'. The op is one of
--   spend         the charge has to fit; it is applied if the decision is admitted
--   peek          the charge has to fit; it is never applied
--   shadow_spend  the charge is applied if the decision is admitted and the charge fits
--   shadow_peek   the charge is only reported
--
-- Returns  now (us); then, for each decision, its outcome and the reading of each of its charges,
--          from before the decision. The outcome is 0 for a denial, and for an admission
--          1 + the number of unreadable states that the decision has replaced.

local key = 0 -- index in KEYS of the charge that was read last
local at = 2 -- index in ARGV of the next decision
local outcome -- of the current decision, as in the reply

-- Reads the remaining charges of the decision, after which the outcome is known. Returns 'spend' if
-- the charge of the caller has to be applied, and 'rewrite' if its state has to be written again
-- because the clock stepped back. index is the position in ARGV just after the arguments of the
-- caller's charge. fits says whether the cost is within the limit, moved whether the clock stepped
-- back; corrupt is 1 if the state was unreadable, otherwise 0.
local function decide(index, op, fits, moved, corrupt)
  if not fits and (op == 'spend' or op == 'peek') then
    outcome = 0
  end
  local name = ARGV[index]
  if name and name ~= 'and' then
    key = key + 1
    algorithms[name](KEYS[key], index + 2, ARGV[index + 1], decide)
  else
    at = index + 1
  end
  if outcome == 0 or not fits then
    return moved and 'rewrite'
  end
  if op == 'spend' or op == 'shadow_spend' then
    outcome = outcome + corrupt
    return 'spend'
  end
end

while ARGV[at] do
  local place = #reply + 1
  reply[place], outcome = 0, 1
  decide(at, 'none', true, false, 0)
  reply[place] = outcome
end
return reply

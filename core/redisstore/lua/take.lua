-- take: decides a list of independent decisions, one after the other. A decision applies all
-- of its charges or none. A later decision sees the states that earlier ones have written.
--
-- KEYS     a key for each charge, in order
-- ARGV[1]  clock
-- then, for each decision, the number of its charges and, for each charge, its algorithm, its
-- op and the arguments of the algorithm. The op is one of
--   spend         the charge has to fit; it is applied if the decision is admitted
--   peek          the charge has to fit; it is never applied
--   shadow_spend  the charge is applied if the decision is admitted and the charge fits
--   shadow_peek   the charge is only reported
--
-- Returns  now (us) and, for each decision, 1 if it is admitted or 2 if it is denied, how many
--          unreadable states it has replaced, and the reading of each charge, which is that
--          of the state before the decision

local reply, size = { now, nil, nil, nil, nil, nil, nil, nil }, 1 -- nil makes room
local key, at = 0, 2
while ARGV[at] do
  local charges, count, admitted = {}, ARGV[at] + 0, true
  at = at + 1
  for i = 1, count do
    local algorithm, op = algorithms[ARGV[at]], ARGV[at + 1]
    local charge = algorithm.read(KEYS[key + i], at + 2)
    charge.algorithm, charge.op = algorithm, op
    if not charge.fits and (op == 'spend' or op == 'peek') then
      admitted = false
    end
    charges[i] = charge
    at = at + 2 + algorithm.arguments
  end
  key = key + count

  local outcome, corrupt = size + 1, 0
  size = size + 2
  for i = 1, count do
    local charge = charges[i]
    local algorithm, op = charge.algorithm, charge.op
    size = algorithm.report(charge, reply, size)
    if not (admitted and charge.fits) then
      if charge.moved then
        algorithm.rewrite(charge)
      end
    elseif op == 'spend' or op == 'shadow_spend' then
      algorithm.spend(charge)
      corrupt = corrupt + charge.corrupt
    end
  end
  reply[outcome], reply[outcome + 1] = admitted and 1 or 2, corrupt
end
return reply

-- adjust: applies charges that cannot be denied, one after the other.
--
-- KEYS     a key for each charge, in order
-- ARGV[1]  clock
-- then, for each charge, its algorithm, its op (debit, credit, undo or reset), the arguments
-- of the algorithm and, for an undo, the receipt: the time of the charge (us), the part of a
-- bucket that was used before it (us, fraction), and its age by the clock of the caller (us),
-- which is more than the time since then if the server's clock has stepped back
--
-- Returns  now (us), 1, how many unreadable states were replaced, and the reading of each
--          charge: that of the state before a reset or the debit of a bucket, otherwise that
--          of the state after the op for a cost of 1

local RECEIPT = 4 -- arguments

local reply, size, at, corrupt = { now, 1, 0, nil, nil, nil, nil, nil }, 3, 2, 0 -- nil makes room
for i = 1, #KEYS do
  local algorithm, op = algorithms[ARGV[at]], ARGV[at + 1]
  local charge, arguments = algorithm.read(KEYS[i], at + 2), at + 2
  at = arguments + algorithm.arguments
  if op == 'reset' then
    call('DEL', KEYS[i])
  elseif op == 'undo' then
    charge = algorithm.undo(charge, arguments, at)
    at = at + RECEIPT
  else
    if op == 'debit' then
      corrupt = corrupt + charge.corrupt
    end
    charge = algorithm[op](charge, arguments)
  end
  size = algorithm.report(charge, reply, size)
end
reply[3] = corrupt
return reply

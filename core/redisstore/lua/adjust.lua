-- adjust: applies charges that cannot be denied, one after the other.
--
-- KEYS     a key for each charge, in order
-- ARGV[1]  clock
-- then, for each charge, its algorithm, its op (debit, credit, undo or reset), the arguments
-- of the algorithm and, for an undo, the receipt:
--   the time of the charge (us)
--   the part of a bucket that was in use before the charge (us, fraction)
--   the age of the charge by the clock of the caller (us). If the server's clock has stepped back,
--   the age is greater than now minus the time of the charge.
--
-- Returns  now (us); 1 + the number of unreadable states that debits have replaced; and the reading
--          of each charge. A reset, and a debit of a bucket, report the state before the op. All
--          other ops report the state after the op, as read for a cost of 1.

local at = 2
reply[2] = 1
for i = 1, #KEYS do
  local op = ARGV[at + 1]
  at = algorithms[ARGV[at]](KEYS[i], at + 2, op)
  if op == 'reset' then
    redis.call('DEL', KEYS[i])
  end
end
return reply

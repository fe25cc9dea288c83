-- adjust: a decision of decisions.lua that cannot be denied. It applies its charges one after the
-- other.
--
-- ARGV     for each charge, its algorithm, its op (debit, credit, undo, undo_last, leave, renew or reset), the
--          arguments of the algorithm and, for an undo or a renew, the receipt:
--            the time of the charge (us)
--            the part of a bucket that was in use before the charge (us, fraction)
--            the age of the charge by the clock of the caller (us). If the server's clock has
--            stepped back, the age is greater than now minus the time of the charge.
--          For an in-flight limit, the receipt is the number of the place instead, and for leave, which
--          removes a queue, that of the queue. An undo_last is the undo of a leaky bucket, which frees the
--          charge only while it is the last.
--
-- Reply    a reset, and a debit of a bucket, report the state before the op. All other ops report the
--          state after the op, as read for a cost of 1.

local function decision(at)
  while key < last do
    key = key + 1
    local op = ARGV[at + 1]
    at = algorithms[ARGV[at]](KEYS[key], at + 2, op)
    if op == 'reset' then
      redis.call('UNLINK', KEYS[key])
    end
  end
end

-- take: decides the charges of one slot together and takes all of them or none.
--
-- This is the frame. It runs after the files of the algorithms that the charges
-- need, each of which puts an entry into `algorithms`:
--
--   read(key, at, now)          -> plan, fits   reads the state; writes nothing
--   spend(key, plan, now, slack)                takes the cost
--   touch(key, plan, now, slack)                denied: writes only what must not wait
--   refund(key, plan, now, slack)               gives the cost back
--   report(plan, out)                           appends the reading to the reply
--
-- KEYS     one key for every charge
-- ARGV[1]  now in Unix microseconds; empty for the server's own clock
-- then for every charge:
--   the algorithm, the op (s spend, p peek, r refund, x reset) and the
--   algorithm's own arguments
--
-- Returns integers only, all of them below 2^53:
--   1 admitted or 2 denied; how many states were unreadable and replaced; and
--   for every charge its reading, as it was before anything was taken.
--
-- Times and spans are microseconds, TTLs milliseconds.

local now = tonumber(ARGV[1])
-- Milliseconds added to every TTL. One makes up for the millisecond grid; a
-- clock that is not the server's own says nothing about when a key may go.
local slack = 1
if now then
  slack = 86400000
else
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local plans, admitted, at = {}, true, 2
for i = 1, #KEYS do
  local algorithm, op = algorithms[ARGV[at]], ARGV[at + 1]
  local plan, fits
  if op == 'x' then
    redis.call('DEL', KEYS[i])
  end
  plan, fits = algorithm.read(KEYS[i], at + 2, now)
  plan.algorithm, plan.op = algorithm, op
  plans[i] = plan
  at = at + 2 + algorithm.arguments
  admitted = admitted and (fits or op == 'r' or op == 'x')
end

local out = { admitted and 1 or 2, 0 }
for i = 1, #KEYS do
  local plan = plans[i]
  plan.algorithm.report(plan, out)
  if plan.op == 'r' then
    plan.algorithm.refund(KEYS[i], plan, now, slack)
  elseif plan.op == 's' then
    if admitted then
      plan.algorithm.spend(KEYS[i], plan, now, slack)
    else
      plan.algorithm.touch(KEYS[i], plan, now, slack)
    end
    if plan.corrupt and admitted then
      out[2] = out[2] + 1
    end
  end
end
return out

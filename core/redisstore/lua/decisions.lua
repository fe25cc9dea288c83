-- decisions: makes independent decisions, one after the other. A later decision sees the states that
-- earlier decisions have written. A decision that fails does not affect the others.
--
-- KEYS     a key for each charge of each decision, in order
-- ARGV[1]  clock
-- then, for each decision, the number of its charges, the number of the following arguments, and the
-- arguments of take.lua or adjust.lua
--
-- Returns  now (us); then, for each decision, its outcome and the reading of each of its charges. If a
--          decision failed, its outcome is the text of the error, without readings. If the server is a
--          replica, returns READONLY.

local first, at = 1, 2 -- indexes in KEYS and ARGV
while ARGV[at] do
  local charges, place = ARGV[at] + 0, #reply + 1
  reply[place], outcome = 0, 1
  local done, result = pcall(decision, first, charges, at + 2)
  if not done then
    for i = #reply, place + 1, -1 do
      reply[i] = nil
    end
    outcome = type(result) == 'table' and result.err or result -- before Redis 7, a text
    if string.find(outcome, 'READONLY', 1, true) then
      -- The script has written nothing. go-redis closes the connection if it reads this reply, and
      -- then dials the new master.
      return { err = outcome }
    end
  end
  reply[place] = outcome
  first, at = first + charges, at + 2 + ARGV[at + 1]
end
return reply

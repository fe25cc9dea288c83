-- decisions: makes independent decisions, one after the other. A later decision sees the states that
-- earlier decisions have written. A decision that fails does not affect the others.
--
-- KEYS     a key for each charge of each decision, in order
-- ARGV[1]  clock
-- ARGV[2]  if decisions take places, see in_flight_take.lua
-- then, for each sequence of decisions with equal arguments, the number of these decisions, the
-- number of charges of each, the number of the following arguments, and the arguments of take.lua,
-- at_most.lua or adjust.lua
--
-- Returns  now (us); the number of unreadable states that were replaced; then, for each decision, the
--          outcome, 1 if the decision is admitted and 0 if it is denied, and the reading of each of its
--          charges. If it failed, the text of the error stands for these. If the server is a replica,
--          returns READONLY.
-- Inserted   FIRST

local at = FIRST -- index in ARGV
while ARGV[at] do
  local count, charges, after = ARGV[at] + 0, ARGV[at + 1] + 0, at + 3 + ARGV[at + 2]
  if count > 1 then
    for i = at + 3, after - 1 do
      ARGV[i] = tonumber(ARGV[i]) or ARGV[i] -- once for all of the decisions
    end
  end
  for _ = 1, count do
    local place = #reply + 1
    last, denied, reply[place] = last + charges, false, 1
    local done, result = pcall(decision, at + 3)
    if not done then
      for i = #reply, place + 1, -1 do
        reply[i] = nil
      end
      reply[place] = type(result) == 'table' and result.err or result -- before Redis 7, a text
      if string.find(reply[place], 'READONLY', 1, true) then
        -- The script has written nothing. go-redis closes the connection if it reads this reply, and
        -- then dials the new master.
        return { err = reply[place] }
      end
      key = last
    elseif denied then
      reply[place] = 0
    end
  end
  at = after
end
reply[2] = replaced
return reply

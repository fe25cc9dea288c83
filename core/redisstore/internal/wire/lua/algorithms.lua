-- algorithms: a table with a function for each algorithm, by the name of the algorithm, and the
-- reply, to which these functions append readings. The arguments of the charge begin at ARGV[at];
-- decisions.lua may have replaced their texts by numbers.
--
-- decide is the function of take.lua or at_most.lua, of which a script contains one. It calls the function of the next
-- charge, so all charges are read before the first one is applied.
--
-- for take.lua    f(key, at, op, decide)  reads the state, appends the reading, calls decide, and
--                                         does the action that decide returns
-- for at_most.lua f(key, at, op, decide, cost, most)
--                                         the same. The reading is for the cost, by default that of
--                                         the arguments. decide need not be told about more room than most
-- for adjust.lua  f(key, at, op)          does the op, appends the reading, and adds the unreadable
--                                         states that it has replaced to replaced; returns the index
--                                         in ARGV just after the arguments of the charge

local algorithms = {}
local key, last = 0, 0 -- indexes in KEYS: of the charge that was read last, and the last of the decision
local denied -- whether the decision is denied
local replaced = 0 -- the number of unreadable states that all decisions have replaced
local reply = { now, 0, nil, nil, nil, nil, nil, nil } -- the nils reserve memory

-- Returns 1, the count of unreadable states, if reply is one, and raises other errors of a read: see failure.
local function unreadable(reply)
  local failed = failure(reply)
  if failed then
    error(failed, 0)
  end
  return 1
end

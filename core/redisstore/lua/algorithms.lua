-- algorithms: a table with a function for each algorithm, by the name of the algorithm, and the
-- reply, to which these functions append readings. The arguments of the charge begin at ARGV[at].
--
-- for take.lua    f(key, at, op, decide)  reads the state, appends the reading, calls decide, and
--                                         does the action that decide returns
-- for adjust.lua  f(key, at, op)          does the op, appends the reading, and adds the unreadable
--                                         states that it has replaced to outcome; returns the index
--                                         in ARGV just after the arguments of the charge

local algorithms = {}
local outcome -- of the current decision, as in the reply
local reply = { now, nil, nil, nil, nil, nil, nil, nil } -- the nils reserve memory

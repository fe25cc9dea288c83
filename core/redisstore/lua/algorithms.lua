-- algorithms: the functions of take.lua or adjust.lua for the algorithms of a script, by the
-- name of the algorithm, and the reply, to which they append readings.
--
-- take(key, at, op, decide)  takes a charge of the key, whose arguments begin at ARGV[at]: reads
--                            the state, appends the reading, and calls decide; see take.lua
-- adjust(key, at, op)        adjusts a charge, and appends the reading. Returns the index of
--                            the argument after those of the charge; see adjust.lua

local algorithms = {}
local reply = { now, nil, nil, nil, nil, nil, nil, nil } -- nil makes room

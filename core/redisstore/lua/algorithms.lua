-- algorithms: the functions of the algorithms of a script, by the name of the algorithm.
--
-- arguments                    how many arguments of the script a charge has
-- read(key, at)                returns a charge of the key, whose arguments begin at ARGV[at],
--                              from the state in Redis. take.lua and adjust.lua use its fields
--                              fits (its cost is within the limit), moved (the state has to be
--                              written again if nothing is spent, because the clock stepped
--                              back) and corrupt (1 if the state is unreadable, otherwise 0)
-- spend(charge)                writes the state with the cost added
-- rewrite(charge)              writes the state of a charge that moved
-- report(charge, reply, size)  appends the reading to the reply, and returns its new size
--
-- Files whose names end with _adjust add the functions for adjust.lua. They return the charge
-- to report.
--
-- debit(charge, at)            adds the cost even if it does not fit
-- credit(charge, at)           frees as much of the cost as is used
-- undo(charge, at, receipt)    frees as much of the cost as still counts of the charge whose
--                              receipt begins at ARGV[receipt]

local MAX_COUNT = 281474976710655 -- 2^48 - 1: no state counts more events
local algorithms = {}

-- sliding_log_take: a sliding log as a charge of take.lua.

algorithms.sliding_log = sliding_log

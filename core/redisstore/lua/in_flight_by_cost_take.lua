-- in_flight_by_cost_take: places by cost as a charge of take.lua.
--
-- ARGV[2]  a number to which each decision adds the index in KEYS of its last key: that of its event

function algorithms.in_flight_by_cost(key, at, op, decide)
  local cost = ARGV[at] + 0
  local total, lapsed, moved, corrupt = by_cost_read(key, at, cost)
  local action = decide(at + 3, op, reply[#reply - 3] + cost <= ARGV[at + 1] + 0, moved, corrupt)
  if action == 'spend' then
    by_cost_spend(key, at, cost, total, lapsed, moved, corrupt)
  elseif action == 'rewrite' then
    by_cost_correct(key, total, lapsed, moved)
    by_cost_expire(key, at)
  end
end

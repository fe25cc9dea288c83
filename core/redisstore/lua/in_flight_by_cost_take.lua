-- in_flight_by_cost_take: places by cost as a charge of take.lua.
--
-- ARGV[2]  a number to which each decision adds the index in KEYS of its last key: that of its event

function algorithms.in_flight_by_cost(key, at, op, decide)
  local own, after = nil, at + 3
  if op == 'wait' then
    own, after, op = caller(after), at + 7, 'spend'
  end
  local cost, events = ARGV[at] + 0, ARGV[at + 1] + 0
  local total, lapsed, moved, corrupt, queues = by_cost_read(key, at, cost, own)
  local fits = reply[#reply - 3] + cost <= events
  local action = decide(after, op, fits, moved, corrupt)
  if action == 'spend' then
    by_cost_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
    total = total + cost
  elseif action == 'rewrite' then
    by_cost_correct(key, total, lapsed, moved, queues)
    by_cost_expire(key, at, queues)
  end
  if own then
    total = by_cost_taken(key, queues, total)
    if queues_wait(key, queues, own, cost, fits or cost > events, action == 'spend', events, total) then
      by_cost_expire(key, at, true)
    end
  end
end

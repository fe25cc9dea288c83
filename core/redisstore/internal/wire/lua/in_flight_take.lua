-- in_flight_take: places as a charge of take.lua and at_most.lua.
--
-- ARGV[2]  a number to which each decision adds the index in KEYS of its last key: that of its event

function algorithms.in_flight(key, at, op, decide, cost)
  local own, after = nil, at + 3
  if op == 'wait' then
    own, after, op = caller(after), at + 8, 'spend'
  end
  local events = ARGV[at + 1] + 0
  cost = cost or ARGV[at] + 0
  local total, lapsed, moved, corrupt, queues = in_flight_read(key, at, cost, own)
  local place = #reply
  local room = events - reply[place - 3]
  local fits = cost <= room
  local action, taken = decide(after, op, fits, moved, corrupt, room)
  if action == 'spend' then
    cost = taken or cost
    reply[place] = reply[place] + 4 * in_flight_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
    total = total + cost
  elseif action == 'rewrite' then
    in_flight_correct(key, total, lapsed, moved, queues)
    in_flight_expire(key, at, queues)
  end
  if own then
    total = in_flight_taken(key, queues, total)
    if queues_wait(key, queues, own, cost, fits or cost > events, action == 'spend', events, total) then
      in_flight_expire(key, at, true)
    end
  end
end

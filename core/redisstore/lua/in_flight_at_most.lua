-- in_flight_at_most: places as a charge of at_most.lua.
--
-- ARGV[2]  as for in_flight_take.lua

function algorithms.in_flight(key, at, op, decide)
  local total, lapsed, moved, corrupt, queues = in_flight_read(key, at, 1)
  local place = #reply - 4
  local cost, refused = decide(at + 3, op, ARGV[at + 1] - reply[place + 1], corrupt)
  if refused then
    local size = #reply
    in_flight_read(key, at, refused)
    reply[place + 3] = reply[size + 3]
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
  end
  if cost > 0 then
    reply[place + 4] = reply[place + 4] + 4 * in_flight_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
  elseif moved then
    in_flight_correct(key, total, lapsed, moved, queues)
    in_flight_expire(key, at, queues)
  end
end

-- in_flight_adjust: an in-flight limit as a charge of adjust.lua. Of the receipt, it reads the time, which
-- is the number of the place.

function algorithms.in_flight(key, at, op)
  local place = #reply
  local count, lapsed, moved = in_flight_read(key, at)
  if op == 'reset' then
    return at + 2
  end
  in_flight_correct(key, count, lapsed, moved)
  local found = 0
  if count > 0 then
    local number = string.format('%d', ARGV[at + 2])
    found = redis.call('ZREM', key, number)
    if op == 'renew' and found == 1 then -- after a deletion, Redis does not check its memory
      redis.call('ZADD', key, string.format('%d', now), number)
      in_flight_expire(key, at)
    end
  end
  if found == 1 or moved then
    reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4], reply[place + 5] = nil, nil, nil, nil, nil
    in_flight_read(key, at)
  end
  if op == 'renew' then
    reply[place + 5] = found
  end
  return at + 6
end

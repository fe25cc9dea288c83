-- in_flight_adjust: an in-flight limit as a charge of adjust.lua. The time of a receipt is the number of the
-- place. The script does not read the rest.

function algorithms.in_flight(key, at, op)
  local place, renewed, found = #reply, nil, nil
  local count, lapsed, moved = in_flight_read(key, at)
  if op == 'reset' then
    return at + 2
  end
  in_flight_correct(key, count, lapsed, moved)
  if count > 0 then
    local number, time = string.format('%d', ARGV[at + 2]), string.format('%d', now)
    if op == 'renew' then
      in_flight_expire(key, at) -- after this write, Redis does not check its memory
      found = redis.call('ZADD', key, 'XX', 'CH', time, number) == 1
        or redis.call('ZADD', key, 'XX', 'INCR', '0', number) -- the score did not change, or there is none
      renewed = found and count
    else
      found = redis.call('ZREM', key, number) == 1
    end
  end
  if found then
    reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4], reply[place + 5] = nil, nil, nil, nil, nil
    in_flight_read(key, at, renewed)
    reply[place + 5] = renewed and 1 or 0
  end
  return at + 6
end

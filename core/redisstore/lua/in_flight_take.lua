-- in_flight_take: an in-flight limit as a charge of take.lua.

function algorithms.in_flight(key, at, op, decide)
  local place = #reply
  local count, lapsed, moved, corrupt = in_flight_read(key, at)
  local action = decide(at + 2, op, count < ARGV[at] + 0, moved, corrupt)
  if not action then
    return
  end
  if corrupt > 0 then
    redis.call('UNLINK', key)
  end
  in_flight_correct(key, count, lapsed, moved)
  if action == 'spend' then
    local time, number = string.format('%d', now), now
    while redis.call('ZADD', key, 'NX', time, string.format('%d', number)) == 0 do
      number = number + 1
    end
    reply[place + 4] = number - now
  end
  in_flight_expire(key, at)
end

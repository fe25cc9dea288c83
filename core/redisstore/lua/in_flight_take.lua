-- in_flight_take: an in-flight limit as a charge of take.lua.
--
-- ARGV[2]  a number to which each decision adds the index in KEYS of its last key: the number of its places

local number = ARGV[2] + 0

function algorithms.in_flight(key, at, op, decide)
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
    if redis.call('ZADD', key, 'NX', string.format('%d', now), string.format('%d', number + last)) == 0 then
      error('the number of the place is taken', 0)
    end
  end
  in_flight_expire(key, at)
end

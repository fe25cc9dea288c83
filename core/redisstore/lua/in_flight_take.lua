-- in_flight_take: an in-flight limit as a charge of take.lua.
--
-- ARGV[2]  a number to which each decision adds the index in KEYS of its last key: the number of its places

local number = ARGV[2] + 0

function algorithms.in_flight(key, at, op, decide)
  local own, after = nil, at + 2
  if op == 'wait' then
    own, after, op = caller(after), at + 6, 'spend'
  end
  local count, lapsed, moved, corrupt, queues = in_flight_read(key, at, own)
  local events = ARGV[at] + 0
  local fits = reply[#reply - 3] < events
  local action = decide(after, op, fits, moved, corrupt)
  if action then
    if corrupt > 0 then
      redis.call('UNLINK', key)
    end
    in_flight_correct(key, count, lapsed, moved, queues)
    if action == 'spend' then
      if redis.call('ZADD', key, 'NX', string.format('%d', now), string.format('%d', number + last)) == 0 then
        error('the number of the place is taken', 0)
      end
      count = count + 1
    end
    in_flight_expire(key, at, queues)
  end
  if own and queues_wait(key, queues, own, 1, fits, action == 'spend', events, count) then
    in_flight_expire(key, at, true)
  end
end

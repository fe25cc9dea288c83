-- in_flight_adjust: places as a charge of adjust.lua. A receipt is the number of an event or, to leave, that
-- of a queue. In the number of an undo, the cost may be 0 if it is not known.
--
-- Inserted   COST_RANGE

-- Returns the number of the event whose number without its cost is that of number, or number.
local function in_flight_find(key, number)
  if number % COST_RANGE == 0 then
    for _, own in ipairs(redis.call('ZRANGEBYSCORE', key, '1', '+inf')) do
      if own - own % COST_RANGE == number + 0 then
        return own
      end
    end
  end
  return number
end

-- Renews the places of an event if none have lapsed, none were renewed after now, no caller waits and one place is free,
-- as nearly always, and appends the reading. Returns whether it did. Renewals are most of the commands of a limit whose
-- events last long.
local function in_flight_renew(key, at, number)
  local events, hold, count, time = ARGV[at + 1] + 0, ARGV[at + 2] + 0, redis.pcall('ZCARD', key), string.format('%d', now)
  if type(count) == 'table' or count < 2 or count > MAX_PLACES
    or redis.call('ZCOUNT', key, string.format('(%d', now - hold), time) < count - 1 then
    return false
  end
  local first = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
  local total = 0 - first[2]
  if first[1] ~= 'total' or total < count - 1 or total >= events or total % 1 ~= 0 then
    return false
  end
  in_flight_expire(key, at) -- after this write, Redis does not check its memory
  if redis.call('ZADD', key, 'XX', 'CH', time, number) == 0 then
    return false
  end
  local place = #reply
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = total, hold, 0, 1
  return true
end

function algorithms.in_flight(key, at, op)
  local number, found, _ = ARGV[at + 3], nil, nil
  if type(number) == 'number' then -- see decisions.lua
    number = string.format('%d', number)
  end
  if op == 'renew' and in_flight_renew(key, at, number) then
    return at + 4
  end
  local total, lapsed, moved, corrupt, queues = in_flight_read(key, at, 1)
  if op == 'reset' then
    queues_wake(key, queues, 0) -- then the key is removed
    return at + 3
  end
  local place = #reply - 4
  if corrupt == 0 then
    in_flight_correct(key, total, lapsed, moved, queues)
  end
  if total > 0 and (op == 'renew' or moved) then
    in_flight_expire(key, at, queues) -- after a write, Redis does not check its memory
  end
  if op == 'leave' then
    found = queues_leave(key, queues, number + 0)
  elseif total > 0 then
    if op == 'renew' then
      found = redis.call('ZADD', key, 'XX', 'CH', string.format('%d', now), number) == 1
        or redis.call('ZADD', key, 'XX', 'INCR', '0', number) -- the score did not change, or there is none
    else
      number = in_flight_find(key, number)
      if redis.call('ZREM', key, number) == 1 then
        found, total = true, total - number % COST_RANGE
        if total > 0 then
          redis.call('ZADD', key, string.format('%d', -total), 'total')
        end
      end
    end
  end
  if total == 0 and (found or lapsed) then
    redis.call('ZREM', key, 'total')
  end
  if found then
    reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = nil, nil, nil, nil
    _, _, _, _, queues = in_flight_read(key, at, 1)
    reply[place + 4] = 1
    if op ~= 'renew' then
      queues_wake(key, queues, in_flight_taken(key, queues, total))
    end
  end
  return at + 4
end

-- in_flight_adjust: an in-flight limit as a charge of adjust.lua. A receipt is the number of a place or, for an undo,
-- minus that of a queue.

local time -- now as text

-- Renews a place if no place has lapsed and none was renewed at or after now, as nearly always, and appends
-- the reading. Returns whether it did. Renewals are most of the commands of a limit whose events last long.
local function in_flight_renew(key, at, number)
  local events, hold, count = ARGV[at] + 0, ARGV[at + 1] + 0, redis.pcall('ZCARD', key)
  if type(count) == 'table' or count == 0 or count > MAX_PLACES
    or redis.call('ZCOUNT', key, string.format('(%d', now - hold), time) < count then
    return false
  end
  in_flight_expire(key, at) -- after this write, Redis does not check its memory
  if redis.call('ZADD', key, 'XX', 'CH', time, number) == 0 then
    return false
  end
  local place, retry = #reply, 0
  if events == 1 then
    retry = hold
  elseif count >= events then
    retry = redis.call('ZREVRANGE', key, events - 1, events - 1, 'WITHSCORES')[2] - now + hold
  end
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = count, hold, retry, 1
  return true
end

function algorithms.in_flight(key, at, op)
  if op == 'reset' then
    local _, _, _, _, queues = in_flight_read(key, at)
    queues_wake(key, queues, 0) -- then the key is removed
    return at + 2
  end
  local number = ARGV[at + 2]
  if type(number) == 'number' then -- see decisions.lua
    number = string.format('%d', number)
  end
  time = time or string.format('%d', now)
  if op == 'renew' and in_flight_renew(key, at, number) then
    return at + 3
  end
  local place, found = #reply, nil
  local count, lapsed, moved, _, queues = in_flight_read(key, at)
  in_flight_correct(key, count, lapsed, moved, queues)
  if count > 0 and (op == 'renew' or moved) then -- see in_flight_renew and in_flight_correct
    in_flight_expire(key, at, queues)
  end
  if op == 'undo' and number + 0 < 0 then
    found = queues_leave(key, queues, -number)
  elseif count > 0 then
    if op == 'renew' then
      found = redis.call('ZADD', key, 'XX', 'CH', time, number) == 1
        or redis.call('ZADD', key, 'XX', 'INCR', '0', number) -- the score did not change, or there is none
    else
      found = redis.call('ZREM', key, number) == 1
    end
  end
  if found then
    reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = nil, nil, nil, nil
    count, _, _, _, queues = in_flight_read(key, at)
    reply[place + 4] = 1
    if op == 'undo' then
      queues_wake(key, queues, count)
    end
  end
  return at + 3
end

-- in_flight: keeps the places that are taken, each until it is freed or lapses. An event takes as many as its cost.
--
-- State      a sorted set. A member is the number of an event as decimal text, and its score is the time at which
--            the places were taken or last renewed (us). The lowest 20 bits of the number are its cost. There are at
--            most MAX_PLACES events, some of which may have lapsed. The score of one more member, total, is minus
--            the cost of all of them. Others are queues, see queues.lua.
-- Arguments  cost, events, hold: the time after which places lapse (us)
-- Reading    the places that are taken or that queues in front need, up to events, or all if there are MAX_PLACES
--            events; two times (us): until the last of them lapse, and until enough of them have lapsed for the cost,
--            0 if it fits or never does; then, for a renewal or an undo, 1 if the places were taken, and otherwise 2 if
--            there can be one more event only, or 0; for a spend, 4 for each number of another event that was in its way
-- TTL        hold after the newest renewal, and at least QUEUE_LEASE after the last change of a queue
-- Inserted   COST_RANGE, MAX_COUNT, MAX_PLACES, QUEUE_LEASE

-- Appends the reading for a cost and a caller, or nil, to the reply, with a last value of 0 or 2. Returns the total
-- without the events that have lapsed; these events, or nil; whether there are renewals after now, because the clock
-- stepped back; 1 if the state is unreadable, otherwise 0; and the queues.
local function in_flight_read(key, at, cost, own)
  local events, cutoff, place = ARGV[at + 1] + 0, now - ARGV[at + 2], #reply
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES') -- the total, and the oldest event
  if first.err then
    return 0, nil, false, unreadable(first)
  elseif not first[1] then
    return 0, nil, false, 0
  end
  local queues, ends = queues_read(key, first, own)
  local total, count, latest, lapsed, rank = 0, 0, cutoff, nil, queues and queues.members or 0
  if queues then
    first, ends = redis.call('ZRANGE', key, rank, rank + 1, 'WITHSCORES'), math.min(ends, now - cutoff)
  end
  if first[1] and first[1] ~= 'total' then
    return 0, nil, false, 1
  elseif first[1] then
    total, count = 0 - first[2], redis.call('ZCARD', key) - 1 - rank
    latest = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
    if first[4] and first[4] + 0 <= cutoff then
      lapsed = redis.call('ZRANGE', key, rank + 1, redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff)) - 1)
      for _, number in ipairs(lapsed) do
        total = total - (tonumber(number) or 0) % COST_RANGE
      end
      count = count - #lapsed
    end
    if count == 0 and total == 0 and lapsed then
      latest = cutoff
    elseif count < 1 or count > MAX_PLACES or total < count or total > count * 1048575 or total % 1 ~= 0
      or latest % 1 ~= 0 then
      return 0, nil, false, 1
    end
  end
  local shown = queues and queues_shown(queues, total, events) or total
  local excess = shown + cost - events
  reply[place + 1], reply[place + 2] = shown, math.max(math.min(latest, now) - cutoff, ends)
  if count == MAX_PLACES - 1 then
    reply[place + 4] = 2
  elseif count == MAX_PLACES then
    reply[place + 1], excess = math.max(shown, events), math.max(excess, 1)
  end
  if excess > 0 and cost <= events then
    reply[place + 3] = ends
  end
  local offset = 0
  while excess > 0 and cost <= events and offset < count do
    local after = string.format('(%d', cutoff)
    local some = redis.call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', offset, 16)
    for i = 1, #some, 2 do
      excess = excess - (tonumber(some[i]) or 0) % COST_RANGE
      reply[place + 3] = math.max(math.min(some[i + 1], now) - cutoff, ends)
      if excess <= 0 then
        break
      end
    end
    offset = offset + 16
  end
  return total, lapsed, latest > now, 0, queues
end

-- Returns total, or more than any limit if there can be no other event.
local function in_flight_taken(key, queues, total)
  if queues and redis.call('ZCARD', key) > MAX_PLACES and redis.call('ZCOUNT', key, '1', '+inf') >= MAX_PLACES then
    return MAX_COUNT
  end
  return total
end

-- Makes renewals after now renewals at now, because the clock stepped back.
local function in_flight_renew_now(key)
  local time = string.format('%d', now)
  local later = redis.call('ZRANGEBYSCORE', key, '(' .. time, '+inf')
  redis.call('ZREMRANGEBYRANK', key, -#later, '-1')
  for _, number in ipairs(later) do
    redis.call('ZADD', key, time, number)
  end
end

-- Removes the events that have lapsed, and makes renewals after now renewals at now. If total is the rest of the
-- state, it is written.
local function in_flight_correct(key, total, lapsed, moved, queues)
  if lapsed then
    local rank = queues and queues.members or 0
    redis.call('ZREMRANGEBYRANK', key, rank + 1, rank + #lapsed)
    redis.call('ZADD', key, string.format('%d', -total), 'total')
  end
  if moved then
    in_flight_renew_now(key)
  end
end

-- Sets the TTL of places, and of queues, unless that is nil.
local function in_flight_expire(key, at, queues)
  redis.call('PEXPIRE', key,
    string.format('%d', (math.max(ARGV[at + 2] + 0, queues and QUEUE_LEASE or 0) + 999) / 1000 + slack))
end

-- Takes cost places. The first write is a deletion or one that Redis rejects if it has no memory. Returns how many numbers
-- of other events were in the way.
local function in_flight_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
  if corrupt > 0 then
    redis.call('UNLINK', key)
  end
  in_flight_correct(key, total, lapsed, moved, queues)
  local number, time, others = (ARGV[2] + last) * COST_RANGE + cost, string.format('%d', now), 0
  if total == 0 then -- no event has a number
    redis.call('ZADD', key, time, string.format('%d', number), string.format('%d', -cost), 'total')
  else
    while redis.call('ZADD', key, 'NX', time, string.format('%d', number + others * COST_RANGE)) == 0 do
      others = others + 1
    end
    redis.call('ZADD', key, string.format('%d', -total - cost), 'total')
  end
  in_flight_expire(key, at, queues)
  return others
end

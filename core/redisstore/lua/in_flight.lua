-- in_flight: keeps the places that are taken, each until it is freed or lapses.
--
-- State      a sorted set. A member is the number of a place as decimal text, which the client has chosen, and its
--            score is the time at which the place was taken or last renewed (us). There are at most MAX_PLACES of
--            these members. Places that have lapsed may still be there. Others are queues, see queues.lua.
-- Arguments  events, hold: the time after which a place lapses (us)
-- Reading    count, with the places that queues in front need, up to events; two times (us): until the last place
--            lapses, and until enough places have lapsed for another one, 0 if it fits; then, for a renewal or an undo,
--            1 if the place was taken, and otherwise 0
-- TTL        hold after the newest renewal, and at least QUEUE_LEASE after the last change of a queue

-- Appends the reading for a caller, or nil, to the reply, with a last value of 0. Returns the count of places; whether
-- there are places that have lapsed; whether there are renewals after now, because the clock stepped back; 1 if the
-- state is unreadable, otherwise 0; and the queues.
local function in_flight_read(key, at, own)
  local events, hold, place = ARGV[at] + 0, ARGV[at + 1] + 0, #reply
  local cutoff = now - hold
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
  if first.err then
    return 0, false, false, unreadable(first)
  elseif not first[1] then
    return 0, false, false, 0
  end
  local queues, ends = queues_read(key, first, own)
  if queues then
    first = redis.call('ZRANGE', key, queues.members, queues.members + 1, 'WITHSCORES')
    ends = math.min(ends, hold)
  end
  local count, oldest, latest, lapsed = 0, cutoff, cutoff, false
  if first[1] then
    count, oldest, latest = 1, first[2] + 0, first[2] + 0
    lapsed = oldest <= cutoff
    if first[3] then -- a key with one place, as most have, takes one command
      latest = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
    end
    if latest <= cutoff then
      count, oldest, latest = 0, cutoff, cutoff
    elseif first[3] then
      local after = string.format('(%d', cutoff)
      count = redis.call('ZCOUNT', key, after, '+inf')
      if lapsed then
        oldest = redis.call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] + 0
      end
    end
  end
  if count > MAX_PLACES or oldest % 1 ~= 0 or latest % 1 ~= 0 then -- infinity % 1 is NaN
    return 0, false, false, 1
  end
  local shown, moved, retry = queues and queues_shown(queues, count, events) or count, latest > now, oldest
  if count > events then
    retry = redis.call('ZREVRANGE', key, events - 1, events - 1, 'WITHSCORES')[2] + 0
  end
  reply[place + 1], reply[place + 2] = shown, math.max(math.min(latest, now) - cutoff, ends)
  if shown >= events then
    reply[place + 3] = math.max(math.min(retry, now) - cutoff, ends)
  end
  return count, lapsed, moved, 0, queues
end

-- Removes the places that have lapsed, and makes renewals after now renewals at now. The arguments are the
-- results of in_flight_read. If the first write is not a deletion, Redis may reject it for lack of memory. If all
-- renewals were after now, the key is a new one, without a TTL.
local function in_flight_correct(key, count, lapsed, moved, queues)
  if lapsed then
    redis.call('ZREMRANGEBYRANK', key, queues and queues.members or '0', -count - 1)
  end
  if moved then
    places_renew_now(key)
  end
end

local function in_flight_expire(key, at, queues)
  places_expire(key, ARGV[at + 1], queues)
end

-- in_flight: keeps the places that are taken, each until it is freed or lapses.
--
-- State      a sorted set. A member is the number of a place as decimal text, which the client has chosen, and its
--            score is the time at which the place was taken or last renewed (us). There are at most MAX_PLACES
--            members. Places that have lapsed may still be there.
-- Arguments  events, hold: the time after which a place lapses (us)
-- Reading    count; two times (us): until the last place lapses, and until enough places have lapsed for
--            another one, 0 if it fits; then, for a renewal or an undo, 1 if the place was taken, and otherwise 0
-- TTL        hold after the newest renewal

-- Appends the reading to the reply, with a last value of 0. Returns count; whether there are places that
-- have lapsed; whether there are renewals after now, because the clock stepped back; and 1 if the state is
-- unreadable, otherwise 0.
local function in_flight_read(key, at)
  local events, hold, place = ARGV[at] + 0, ARGV[at + 1] + 0, #reply
  local cutoff = now - hold
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
  if first.err then
    return 0, false, false, unreadable(first)
  elseif not first[1] then
    return 0, false, false, 0
  end
  local count, oldest, latest = 1, first[2] + 0, first[2] + 0
  local lapsed = oldest <= cutoff
  if first[3] then -- a key with one place, as most have, takes one command
    latest = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
  end
  if latest <= cutoff then
    return 0, true, false, 0
  end
  if first[3] then
    local after = string.format('(%d', cutoff)
    count = redis.call('ZCOUNT', key, after, '+inf')
    if lapsed then
      oldest = redis.call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] + 0
    end
  end
  if count > MAX_PLACES or oldest % 1 ~= 0 or latest % 1 ~= 0 then -- infinity % 1 is NaN
    return 0, false, false, 1
  end
  local moved, retry = latest > now, oldest
  if count > events then
    retry = redis.call('ZREVRANGE', key, events - 1, events - 1, 'WITHSCORES')[2] + 0
  end
  reply[place + 1], reply[place + 2] = count, math.min(latest, now) - cutoff
  if count >= events then
    reply[place + 3] = math.min(retry, now) - cutoff
  end
  return count, lapsed, moved, 0
end

-- Removes the places that have lapsed, and makes renewals after now renewals at now. The arguments are the
-- results of in_flight_read. If the first write is not a deletion, Redis may reject it for lack of memory. If all
-- renewals were after now, the key is a new one, without a TTL.
local function in_flight_correct(key, count, lapsed, moved)
  if lapsed then
    redis.call('ZREMRANGEBYRANK', key, '0', -count - 1)
  end
  if moved then
    local time = string.format('%d', now)
    local later = redis.call('ZRANGEBYSCORE', key, '(' .. time, '+inf')
    redis.call('ZREMRANGEBYRANK', key, -#later, '-1')
    for _, number in ipairs(later) do
      redis.call('ZADD', key, time, number)
    end
  end
end

local function in_flight_expire(key, at)
  redis.call('PEXPIRE', key, string.format('%d', (ARGV[at + 1] + 999) / 1000 + slack))
end

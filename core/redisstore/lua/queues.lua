-- queues: callers who wait for places, as a part of the states of in_flight.lua and in_flight_by_cost.lua.
--
-- State      A queue of callers is a member QUEUE:COST:END of the sorted set: its number, of 16 digits; the cost of its
--            first caller; and the time at which the state forgets it (us). The score is the arrival of the caller (us)
--            minus 2^53, so that queues come first, in the order of arrival. Queues at the latest MAX_QUEUES places are
--            removed. Their end is at most QUEUE_LEASE after now, unless the clock stepped back; they are then expired.
-- Arguments  of op wait, a spend of a caller who waits, after those of the algorithm: the number of the queue; how much
--            later its next caller came (us), or -1; the cost of that caller; the age of the caller (us)
-- Messages   to the channel of the process of a queue: its number if the places for its first caller are free; and ?
--            with its number when the state has it, which shows the process that messages come

-- Returns the caller whose arguments begin at ARGV[at]: its queue, its arrival, how much later the next one came, and
-- the cost of that.
local function caller(at)
  return { ARGV[at] + 0, math.max(0, now - ARGV[at + 3]), ARGV[at + 1] + 0, ARGV[at + 2] + 0 }
end

-- Reads the queues of key in front of a caller, or all if own is nil. first is the reply to ZRANGE of key with scores.
-- Returns the queues that have not expired, each with its number, arrival, cost and member, and the number of all as
-- members, and as stale those that have expired; the cost of those in front; and the time until the last of these
-- expires. Without any queue, it returns nil, 0 and 0.
local function queues_read(key, first, own)
  if not first[1] or first[2] - LAST_QUEUE > 0 then
    return nil, 0, 0
  end
  local queues, ahead, ends = { stale = {} }, 0, 0
  local all = redis.call('ZRANGEBYSCORE', key, '-inf', LAST_QUEUE, 'WITHSCORES')
  queues.members = #all / 2
  for i = 1, #all, 2 do
    local queue, cost, last = string.match(all[i], '^(%d+):(%d+):(%d+)$')
    if queue and last - now > 0 and last - now <= QUEUE_LEASE then
      local q = { queue + 0, all[i + 1] + 9007199254740992, cost + 0, all[i] }
      queues[#queues + 1] = q
      if not own or q[1] ~= own[1] and (q[2] < own[2] or q[2] == own[2] and q[1] < own[1]) then
        ahead, ends = ahead + q[3], math.max(ends, last - now)
      end
    elseif #queues.stale < MAX_QUEUES then -- the others are removed later
      queues.stale[#queues.stale + 1] = all[i]
    end
  end
  return queues, ahead, ends
end

-- Publishes a message about a queue, if the user may.
local function queues_publish(key, queue, message)
  redis.pcall('PUBLISH', string.match(key, '^[^{]*') .. string.format('wake:%d', math.floor(queue / PER_PROCESS)),
    message .. string.format('%d', queue))
end

-- Wakes the queues for whose first callers there are enough places since freed of them are free.
local function queues_wake(key, queues, free, freed)
  local need = 0
  for _, q in ipairs(queues or {}) do
    need = need + q[3]
    if need > free then
      return
    elseif need > free - freed then
      queues_publish(key, q[1], '')
    end
  end
end

-- Removes the queue with a number, and those that have expired. Returns the cost of its first caller, or 0, without any
-- change, if it is not there.
local function queues_leave(key, queues, number)
  for i, q in ipairs(queues or {}) do
    if q[1] == number then
      redis.call('ZREM', key, q[4], unpack(queues.stale))
      queues.stale = {}
      table.remove(queues, i)
      return q[3]
    end
  end
  return 0
end

-- Changes the queue of a caller after the decision about its event of a cost. fits says whether the places sufficed or
-- never will, spent whether they were taken, and free how many are free then. Returns whether the queue is in the state.
local function queues_wait(key, queues, own, cost, fits, spent, free)
  local freed = queues_leave(key, queues, own[1]) -- for the queues behind
  if spent then
    freed = freed - cost -- above 0 if an earlier caller, which needed more, has left
  end
  if fits and not (spent and own[3] >= 0) then
    queues_wake(key, queues, free, freed)
    return false
  end
  queues = queues or { stale = {} }
  if #queues.stale > 0 then
    redis.call('ZREM', key, unpack(queues.stale))
  end
  local came = own[2]
  if spent then
    came, cost = math.min(came + own[3], now), own[4]
  end
  local member = string.format('%016d:%d:%d', own[1], cost, now + QUEUE_LEASE)
  local added = redis.pcall('ZADD', key, string.format('%d', came - 9007199254740992), member)
  if type(added) == 'table' then
    if string.find(added.err, 'OOM', 1, true) then -- the caller waits without a place in the order
      return false
    end
    error(added.err, 0)
  end
  if #queues >= MAX_QUEUES then
    redis.call('ZREMRANGEBYRANK', key, MAX_QUEUES, #queues)
  end
  local need, i = cost, 1
  while queues[i] and (queues[i][2] < came or queues[i][2] == came and queues[i][1] < own[1]) do
    need, i = need + queues[i][3], i + 1
  end
  table.insert(queues, i, { own[1], came, cost })
  if not spent then
    queues_publish(key, own[1], '?')
  elseif need <= free then
    queues_publish(key, own[1], '')
  end
  queues_wake(key, queues, free, freed) -- others may be in front of the caller now
  return true
end

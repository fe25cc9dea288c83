-- queues: callers who wait for places, in the states of in_flight.lua.
--
-- State      A queue of callers is a member QUEUE:COST:LIMIT:END of the sorted set: its number, of 16 digits; the cost
--            of its first caller; the limit of that; and the time at which the state forgets the queue (us). If the
--            caller was woken and has not asked again, :woken follows. The score is the arrival of the caller (us) minus 2^53, so that
--            queues come first, in the order of arrival. There are at most MAX_QUEUES. Their end is at most QUEUE_LEASE
--            after now, unless the clock stepped back; they are then expired.
-- Arguments  of op wait, a spend of a caller who waits, after those of the algorithm: the number of the queue; 1 if the
--            queue in the state is that of the caller, whose earlier arrival counts, otherwise 0; the cost of its next
--            caller, 0 if there is none; the age of the caller, and how much later the next one came (us)
-- Messages   to the channel of the process of a queue: its number if the places for its first caller are free; and ?
--            with its number when the state has it, which shows the process that messages come
-- Inserted   LAST_QUEUE, MAX_QUEUES, PER_PROCESS, QUEUE_LEASE

-- Returns the caller whose arguments begin at ARGV[at]: its queue, its arrival, how much later the next one came, the
-- cost of that, and whether the arrival in the state is its own.
local function caller(at)
  return { ARGV[at] + 0, math.max(0, now - ARGV[at + 3]), ARGV[at + 4] + 0, ARGV[at + 2] + 0, ARGV[at + 1] + 0 == 1 }
end

-- Reads the queues of key in front of a caller, or all if own is nil. first is the reply to ZRANGE of key with scores.
-- Returns the queues that have not expired, each with its number, arrival, cost, limit, member, whether it is in front
-- and whether it was woken, and the number of all as members, and as stale those that have expired; and the time until the last of those in
-- front expires. Without any queue, it returns nil and 0.
local function queues_read(key, first, own)
  if not first[1] or first[2] - LAST_QUEUE > 0 then
    return nil, 0
  end
  local queues, ends = { stale = {} }, 0
  local all = redis.call('ZRANGEBYSCORE', key, '-inf', LAST_QUEUE, 'WITHSCORES')
  queues.members = #all / 2
  for i = 1, #all, 2 do
    local queue, cost, limit, last, woken = string.match(all[i], '^(%d+):(%d+):(%d+):(%d+)(:?w?o?k?e?n?)$')
    if queue and (woken == '' or woken == ':woken') and last - now > 0 and last - now <= QUEUE_LEASE then
      local q = { queue + 0, all[i + 1] + 9007199254740992, cost + 0, limit + 0, all[i], false, woken == ':woken' }
      queues[#queues + 1] = q
      if own and q[1] == own[1] and own[5] then
        own[2] = math.min(own[2], q[2]) -- the time until an ask arrives differs from one to the next
      end
      if not own or q[1] ~= own[1] and (q[2] < own[2] or q[2] == own[2] and q[1] < own[1]) then
        q[6], ends = true, math.max(ends, last - now)
      end
    elseif #queues.stale < MAX_QUEUES then -- the others are removed later
      queues.stale[#queues.stale + 1] = all[i]
    end
  end
  return queues, ends
end

-- Returns taken and the places that a queue needs besides, up to the limit of its caller: others may have larger limits,
-- and places that the queue cannot get are free for them.
local function queue_needs(q, taken)
  return math.max(taken, math.min(taken + q[3], q[4]))
end

-- Returns the places that are taken or that queues in front need, up to a limit, or all if more are taken.
local function queues_shown(queues, taken, limit)
  local needed = taken
  for _, q in ipairs(queues) do
    needed = q[6] and queue_needs(q, needed) or needed
  end
  return math.min(needed, math.max(taken, limit))
end

-- Publishes a message about a queue, if the user may.
local function queues_publish(key, queue, message)
  redis.pcall('PUBLISH', string.match(key, '^[^{]*') .. string.format('wake:%d', math.floor(queue / PER_PROCESS)),
    message .. string.format('%d', queue))
end

-- Wakes the queues that were not woken and for whose first callers enough places are free, if so many are taken.
local function queues_wake(key, queues, taken)
  for _, q in ipairs(queues or {}) do
    if not q[7] and taken + q[3] <= q[4] then
      redis.call('ZREM', key, q[5])
      redis.call('ZADD', key, string.format('%d', q[2] - 9007199254740992), q[5] .. ':woken')
      queues_publish(key, q[1], '')
    end
    taken = queue_needs(q, taken)
  end
end

-- Removes the queue with a number, and those that have expired. Returns whether it was there; otherwise nothing is changed.
local function queues_leave(key, queues, number)
  for i, q in ipairs(queues or {}) do
    if q[1] == number then
      redis.call('ZREM', key, q[5], unpack(queues.stale))
      queues.stale = {}
      table.remove(queues, i)
      return true
    end
  end
  return false
end

-- Changes the queue of a caller after the decision about its event of a cost. fits says whether the places sufficed or
-- never will, spent whether they were taken, limit is that of the rule, and taken are the places that are taken then, or
-- all if there can be no other event. Returns whether the queue is in the state.
local function queues_wait(key, queues, own, cost, fits, spent, limit, taken)
  local left = queues_leave(key, queues, own[1])
  queues = queues or { stale = {} }
  if #queues.stale > 0 then
    redis.call('ZREM', key, unpack(queues.stale))
    left = true
  end
  local came, waits = own[2], not fits
  if spent then
    came, cost, waits = math.min(came + own[3], now), own[4], own[4] > 0
  end
  local i = 1
  while queues[i] and (queues[i][2] < came or queues[i][2] == came and queues[i][1] < own[1]) do
    i = i + 1
  end
  if waits and cost <= limit and i <= MAX_QUEUES then
    local member = string.format('%016d:%d:%d:%d', own[1], cost, limit, now + QUEUE_LEASE)
    local added = redis.pcall('ZADD', key, string.format('%d', came - 9007199254740992), member)
    if type(added) == 'number' then
      if #queues >= MAX_QUEUES then
        redis.call('ZREMRANGEBYRANK', key, MAX_QUEUES, #queues)
        queues[#queues] = nil
      end
      table.insert(queues, i, { own[1], came, cost, limit, member })
      if not spent then
        queues_publish(key, own[1], '?')
      end
      queues_wake(key, queues, taken)
      return true
    elseif not string.find(added.err, 'OOM', 1, true) then -- without memory, the caller waits without a place in the order
      error(added.err, 0)
    end
  end
  if left then
    queues_wake(key, queues, taken)
  end
  return false
end

-- sliding_log: records the time of every admitted event.
--
-- State      a sorted set. A member holds up to 12 events. Redis keeps up to 128 members in one
--            compact block, which then has room for 1500 events. The score of a member is the
--            time of its newest event. Its bytes, big-endian, are
--              6 bytes  the number of its first event; events are numbered in order
--              1 byte   width of an offset, 4 to 7; or 0 if the member is a bulk, which stores
--                       many events of one time as a count
--              7 bytes  a time, not later than its oldest event
--              then     an offset from that time for every event; in a bulk, 6 bytes: the count
--            The number makes members unique and keeps members of the same microsecond in
--            order. The count of the window is a difference of two numbers, so the members
--            between them need not be read.
--            Undone events leave a gap between the numbers of two members. The numbers in the
--            gap are void. Numbers form blocks of 64, and a member belongs to the block of its
--            last number. Gaps occur only after the last member of a block, and the void numbers
--            of a gap are counted for that block. A Fenwick tree holds sums of void numbers.
--            Node i > 0 is a member with the score 2^53 + 2 i, above every time. It covers the p
--            blocks from block i - 1 on; p is the largest power of 2 that divides i. It contains
--              6 bytes  i
--              6 bytes  the count of void numbers in these blocks; not zero
--            The nodes of blocks before the window are out of date and not read.
-- Arguments  cost, events, period (us), width
-- Reading    count; three times (us): until the first event leaves the window, until the last event
--            leaves, and until enough events have left for the cost to fit; 0 without such events
-- TTL        one period after the newest event

local HEADER, MEMBER = 14, 64 -- bytes; Redis does not keep longer members in a compact block
local SMALL = 8 -- a cost up to this is recorded event by event, a larger cost as a bulk
local BLOCK = 64 -- numbers
local MAX_COUNT = 281474976710655 -- 2^48 - 1: numbers do not exceed it
local NODES = 9007199254740992 -- 2^53, above every time

-- Returns the parts of a member as a table, a chunk: before (the number of its first event), n (the
-- count of its events), width and base of its offsets, and bytes (the member). Returns nil if the
-- member is unreadable.
local function log_open(member)
  if #member <= HEADER then
    return nil
  end
  local before, width, base = struct.unpack('>I6BI7', member)
  if width == 0 then
    if #member ~= HEADER + 6 then
      return nil
    end
    return { width = 0, before = before, base = base, n = (struct.unpack('>I6', member, HEADER + 1)), bytes = member }
  end
  local n = (#member - HEADER) / width
  if width < 4 or width > 7 or n % 1 ~= 0 then
    return nil
  end
  return { width = width, before = before, base = base, n = n, bytes = member }
end

-- Returns the time of the i-th event of a chunk.
local function log_time(chunk, i)
  if chunk.width == 0 then
    return chunk.base
  end
  return chunk.base + struct.unpack('>I' .. chunk.width, chunk.bytes, HEADER + 1 + (i - 1) * chunk.width)
end

-- Returns the count of events of a chunk at or before a time.
local function log_until(chunk, time)
  if chunk.width == 0 then
    return chunk.base <= time and chunk.n or 0
  end
  local n = 0
  while n < chunk.n and log_time(chunk, n + 1) <= time do
    n = n + 1
  end
  return n
end

-- Returns the count of void numbers in the block that contains the number before the given number,
-- and in all later blocks; NaN if a node is unreadable.
local function log_voids(charge, number)
  local node, last = math.floor((number - 1) / BLOCK) + 1, (charge.last.before + charge.last.n) / BLOCK
  local sum, lowest = 0, 1
  while charge.voided and node < last do -- no void number follows the last member
    if node % (2 * lowest) ~= 0 then
      local score = string.format('%d', NODES + 2 * node)
      local member = redis.call('ZRANGEBYSCORE', charge.key, score, score)[1]
      if member then
        sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0 / 0)
      end
      node = node + lowest
    end
    lowest = 2 * lowest
  end
  return sum
end

-- Finds the n-th event of the window by bisection. Returns its chunk, its index in the chunk, and
-- the rank of the member.
local function log_find(charge, n)
  local number, chunk, left, at = charge.first.before + charge.left + n, nil, nil, nil
  local low, high = redis.call('ZRANK', charge.key, charge.first.bytes), redis.call('ZRANK', charge.key, charge.last.bytes)
  while low <= high do
    local rank = math.floor((low + high) / 2)
    local middle = log_open(redis.call('ZRANGE', charge.key, rank, rank)[1])
    local before = middle and middle.before - (charge.voids - log_voids(charge, middle.before + middle.n))
    if middle and before < number then
      chunk, left, at, low = middle, number - before, rank, rank + 1
    else
      high = rank - 1
    end
  end
  return chunk, chunk and math.min(chunk.n, left), at
end

-- Sets the fields of charge from the state, and returns false if the state is unreadable:
--   newest  the time of the newest event
--   cutoff  the time up to which events have left the window
--   last    the last chunk
--   first   the first chunk with events in the window, nil if there is none
--   left    the count of events of first that have left the window
--   voided  whether there are nodes
--   voids   the count of void numbers after the chunk first
--   count
local function log_load(charge)
  local newest = redis.pcall('ZREVRANGE', charge.key, 0, 0, 'WITHSCORES')
  if newest.err then
    unreadable(newest)
    return false
  end
  if #newest == 0 then
    return true
  end
  charge.newest = newest[2] + 0
  if charge.newest > NODES then
    charge.voided = true
    newest = redis.call('ZREVRANGEBYSCORE', charge.key, string.format('%d', NODES), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #newest == 0 then
      return false
    end
    charge.newest = newest[2] + 0
  end
  charge.last = log_open(newest[1])
  if not charge.last or log_time(charge.last, charge.last.n) ~= charge.newest then
    return false
  end
  -- Events that had left when the newest event was admitted do not return when the clock
  -- steps back.
  charge.cutoff = math.max(now, charge.newest) - charge.period
  if charge.newest <= charge.cutoff then
    return true
  end
  local first = redis.call('ZRANGEBYSCORE', charge.key, string.format('(%d', charge.cutoff), '+inf', 'LIMIT', 0, 1)[1]
  local chunk = first == newest[1] and charge.last or log_open(first)
  if not chunk then
    return false
  end
  local left = log_until(chunk, charge.cutoff)
  charge.first, charge.left = chunk, left
  charge.voids = charge.voided and log_voids(charge, chunk.before + chunk.n) or 0
  charge.count = charge.last.before + charge.last.n - chunk.before - left - charge.voids
  return left < chunk.n and charge.count > 0 and log_time(chunk, left + 1) <= charge.newest
end

-- Reads the state for a cost, by default that of the arguments.
local function sliding_log_read(key, at, cost)
  local charge = {
    key = key, cost = cost or ARGV[at] + 0, events = ARGV[at + 1] + 0, period = ARGV[at + 2] + 0, width = ARGV[at + 3] + 0,
    count = 0, first_leaves = 0, last_leaves = 0, retry = 0, moved = false, corrupt = 0,
    newest = nil, cutoff = nil, first = nil, left = nil, last = nil, voided = false, voids = 0, -- see log_load
  }
  if not log_load(charge) then
    charge.corrupt, charge.last, charge.first, charge.count = 1, nil, nil, 0
  end
  local first, period = charge.first, charge.period
  local excess = charge.count + charge.cost - charge.events
  if first then
    charge.moved = charge.newest > now
    charge.first_leaves = math.min(log_time(first, charge.left + 1), now) + period - now
    charge.last_leaves = math.min(charge.newest, now) + period - now
    if excess > 0 and charge.cost <= charge.events then
      local chunk, i = first, charge.left + excess
      if i > chunk.n then
        chunk, i = log_find(charge, excess)
      end
      charge.retry = math.max(0, math.min(chunk and log_time(chunk, i) or now, now) + period - now)
    end
  end
  return charge
end

local function log_add(key, time, member)
  redis.call('ZADD', key, string.format('%d', time), member)
end

local function log_expire(charge)
  redis.call('PEXPIRE', charge.key, string.format('%d', math.ceil(charge.period / 1000) + slack))
end

local function log_header(width, before, base)
  return struct.pack('>I6BI7', before, width, base)
end

-- Writes the whole window again, with the events after now moved to now.
local function log_rebase(charge)
  local members = redis.call('ZRANGEBYSCORE', charge.key, string.format('(%d', charge.cutoff), string.format('%d', NODES))
  redis.call('DEL', charge.key)
  local number, late = 0, 0
  charge.first, charge.last = nil, nil
  local function put(member)
    local chunk = log_open(struct.pack('>I6', number) .. string.sub(member, 7))
    log_add(charge.key, log_time(chunk, chunk.n), chunk.bytes)
    number = number + chunk.n
    charge.first, charge.last = charge.first or chunk, chunk
  end
  for _, member in ipairs(members) do
    local chunk = log_open(member)
    if chunk then
      local left, past = log_until(chunk, charge.cutoff), log_until(chunk, now)
      if left < past and chunk.width == 0 then
        put(member)
      elseif left < past then
        put(string.sub(member, 1, HEADER)
          .. string.sub(member, HEADER + 1 + left * chunk.width, HEADER + past * chunk.width))
      end
      late = late + chunk.n - math.max(left, past)
    end
  end
  if late > 0 then
    put(log_header(0, 0, now) .. struct.pack('>I6', late))
  end
  charge.left, charge.voids, charge.voided = 0, 0, false
  charge.newest, charge.cutoff = now, now - charge.period
end

-- Redis checks maxmemory only at the first write of a script, and not for deletions. The first
-- write is a ZADD unless the state is replaced, so a spend is rejected as a whole or not at all.
local function sliding_log_spend(charge)
  if charge.corrupt > 0 then
    redis.call('DEL', charge.key)
  elseif charge.first and (charge.newest > now or charge.last.before + charge.last.n + charge.cost > MAX_COUNT) then
    log_rebase(charge)
  end
  local last = charge.first and charge.last
  local before = last and last.before + last.n or 0
  local extended
  if charge.cost > SMALL then
    log_add(charge.key, now, log_header(0, before, now) .. struct.pack('>I6', charge.cost))
  else
    local width, offset = charge.width, 0
    local member = log_header(width, before, now)
    if last and last.width == width and #last.bytes + width <= MEMBER and now - last.base < 256 ^ width then
      extended, member, offset = last.bytes, last.bytes, now - last.base
    end
    for i = 1, charge.cost do
      if #member + width > MEMBER then
        log_add(charge.key, now, member)
        member, offset = log_header(width, before + i - 1, now), 0
      end
      member = member .. struct.pack('>I' .. width, offset)
    end
    log_add(charge.key, now, member)
  end
  if extended then
    redis.call('ZREM', charge.key, extended)
  elseif charge.cutoff then
    redis.call('ZREMRANGEBYSCORE', charge.key, '-inf', string.format('%d', charge.cutoff))
    if charge.voided then
      local score = '+inf'
      if charge.first and charge.voids > 0 then
        local node = math.floor((charge.first.before + charge.first.n - 1) / BLOCK)
        score = string.format('%d', NODES + 2 * node)
      end
      redis.call('ZREMRANGEBYSCORE', charge.key, string.format('(%d', NODES), score)
    end
  end
  log_expire(charge)
end

local function sliding_log_report(charge)
  local size = #reply
  reply[size + 1], reply[size + 2] = charge.count, charge.first_leaves
  reply[size + 3], reply[size + 4] = charge.last_leaves, charge.retry
end

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
--            Node i > 0 is a member with the score NODES + 2 i. It covers the p blocks from block
--            i - 1 on; p is the largest power of 2 that divides i. It contains
--              6 bytes  i
--              6 bytes  the count of void numbers in these blocks; not zero
--            The nodes of blocks before the window are out of date and not read.
-- Arguments  cost, events, period (us), width
-- Reading    count; three times (us): until the first event leaves the window, until the last event
--            leaves, and until enough events have left for the cost to fit; 0 without such events
-- TTL        one period after the newest event

local MEMBER = 64 -- bytes; Redis does not keep longer members in a compact block
local BLOCK = 64 -- numbers of a block
local NODES = MAX_INTEGER + 1 -- above every time

-- Returns, for a member,
--   the number of its first event
--   the count of its events
--   the time of its i-th event, by default the last
--   the time from which its offsets are measured
--   the format of an offset, nil for a bulk
--   the width of an offset, 0 for a bulk
-- Returns nothing if the member is unreadable.
local function log_open(member, i)
  if #member < 15 then
    return
  end
  local before, width, base = struct.unpack('>I6BI7', member)
  if width == 0 then
    if #member == 20 then
      return before, (struct.unpack('>I6', member, 15)), base, base, nil, 0
    end
    return
  end
  -- A concatenation would write the number by printf, which takes longer.
  local format = width == 4 and '>I4' or width == 5 and '>I5' or width == 6 and '>I6' or width == 7 and '>I7'
  local n = (#member - 14) / width
  if format and n % 1 == 0 then
    return before, n, base + struct.unpack(format, member, 15 + ((i or n) - 1) * width), base, format, width
  end
end

-- Returns, for a member,
--   the count of its events at or before a time
--   the count of its events
--   the number of its first event
--   the time of its first event after the given time; nil if there is none
-- Returns nothing if the member is unreadable.
local function log_until(member, time)
  local before, n, later, base, format, width = log_open(member, 1)
  if not n or later > time then
    return n and 0, n, before, later
  elseif not format then
    return n, n, before
  end
  local low, high = 1, n -- low events are not after the time, n - high are
  later = nil
  while low < high do
    local middle = math.ceil((low + high) / 2)
    local found = base + struct.unpack(format, member, 15 + (middle - 1) * width)
    if found <= time then
      low = middle
    else
      high, later = middle - 1, found
    end
  end
  return low, n, before, later
end

-- Returns functions that few calls need. Redis builds them only when this function runs.
local function log_functions()
  -- Returns the count of void numbers in the block that contains the number before the given
  -- number, and in all later blocks; NaN if a node is unreadable. stop is the number after the last
  -- event, or 0 if there are no nodes.
  local function voids(key, number, stop)
    local node, last = math.floor((number - 1) / BLOCK) + 1, stop / BLOCK
    local sum, lowest = 0, 1
    while node < last do -- no void number follows the last member
      if node % (2 * lowest) ~= 0 then
        local score = string.format('%d', NODES + 2 * node)
        local member = redis.call('ZRANGEBYSCORE', key, score, score)[1]
        if member then
          sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0 / 0)
        end
        node = node + lowest
      end
      lowest = 2 * lowest
    end
    return sum
  end

  -- Finds the n-th event from the beginning of the member first on, by bisection. after is the count
  -- of void numbers after first. Returns the member, the index of the event, and the rank of the
  -- member.
  local function find(key, first, last, n, after, stop)
    local number = log_open(first) + n
    local low, high = redis.call('ZRANK', key, first), redis.call('ZRANK', key, last)
    local found, index, at
    while low <= high do
      local rank = math.floor((low + high) / 2)
      local text = string.format('%d', rank)
      local member = redis.call('ZRANGE', key, text, text)[1]
      local before, size = log_open(member)
      before = before and before - after + voids(key, before + size, stop)
      if before and before < number then
        found, index, at, low = member, math.min(size, number - before), rank, rank + 1
      else
        high = rank - 1
      end
    end
    return found, index, at
  end

  -- Returns a member with the events i to j of a member.
  local function slice(member, i, j)
    local _, _, _, _, format, width = log_open(member)
    return string.sub(member, 1, 14)
      .. (format and string.sub(member, 15 + (i - 1) * width, 14 + j * width) or struct.pack('>I6', j - i + 1))
  end

  -- Writes the whole window again, with the events after now moved to now. Returns stop, last, base
  -- and format as log_read does.
  local function rebase(key, last, period)
    local _, _, newest = log_open(last)
    local cutoff = math.max(now, newest) - period
    local members = redis.call('ZRANGEBYSCORE', key, string.format('(%d', cutoff), string.format('%d', NODES))
    redis.call('DEL', key)
    local stop, late = 0, 0
    local function put(member)
      last = struct.pack('>I6', stop) .. string.sub(member, 7)
      local _, n, time = log_open(last)
      redis.call('ZADD', key, string.format('%d', time), last)
      stop = stop + n
    end
    for _, member in ipairs(members) do
      local left, n = log_until(member, cutoff)
      if left then
        local past = log_until(member, now)
        if left < past then
          put(slice(member, left + 1, past))
        end
        late = late + n - math.max(left, past)
      end
    end
    if late > 0 then
      put(struct.pack('>I6BI7I6', 0, 0, now, late))
    end
    local _, _, _, base, format = log_open(last)
    return stop, last, base, format
  end

  return voids, find, slice, rebase
end

-- Reads the state for a cost. Returns the reading (count, first_leaves, last_leaves, retry) and
--   moved    whether the state has to be written again even if nothing is spent, because the clock
--            stepped back
--   corrupt  1 if the state is unreadable, otherwise 0
--   stale    if members have left the window, the time up to which events have left, otherwise nil
--   nodes    if there are nodes, the score up to which they are out of date, otherwise nil
-- and, if there are events in the window,
--   stop     the number after the last event
--   last     the last member
--   base     the time from which its offsets are measured
--   format   the format of its offsets, nil for a bulk
local function log_read(key, cost, events, period)
  local newest, nodes = redis.pcall('ZREVRANGE', key, '0', '0', 'WITHSCORES'), nil
  if newest.err then
    return 0, 0, 0, 0, false, unreadable(newest)
  elseif not newest[1] then
    return 0, 0, 0, 0, false, 0
  end
  if newest[2] + 0 > NODES then
    nodes = '+inf'
    newest = redis.call('ZREVRANGEBYSCORE', key, string.format('%d', NODES), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if not newest[1] then
      return 0, 0, 0, 0, false, 1
    end
  end
  local last, before, n, latest, base, format = newest[1], log_open(newest[1])
  if latest ~= newest[2] + 0 then
    return 0, 0, 0, 0, false, 1
  end
  -- Events that had left when the newest event was admitted do not return when the clock steps
  -- back.
  local moved, cutoff = latest > now, now - period
  if moved then
    cutoff = latest - period
  elseif latest <= cutoff then
    return 0, 0, 0, 0, false, 0, cutoff, nodes
  end

  -- A last member with the number 0 is the only one. Otherwise, the first member of all is mostly
  -- in the window, and takes less time to find than the first one after a score.
  local first, stale = before == 0 and last or redis.call('ZRANGE', key, '0', '0')[1], nil
  local left, size, number, oldest = log_until(first, cutoff)
  if left == size or oldest > latest then
    stale = cutoff
    first = redis.call('ZRANGEBYSCORE', key, string.format('(%d', cutoff), '+inf', 'LIMIT', '0', '1')[1]
    left, size, number, oldest = log_until(first, cutoff)
    if left == size then
      return 0, 0, 0, 0, false, 1
    end
  end
  local stop, voids = before + n, 0
  if nodes then
    voids = log_functions()(key, number + size, stop)
    if voids > 0 then
      nodes = string.format('%d', NODES + 2 * math.floor((number + size - 1) / BLOCK))
    end
  end
  local count = stop - number - left - voids
  if count ~= count or count <= 0 or oldest > latest then -- a NaN differs from itself
    return 0, 0, 0, 0, false, 1
  end

  local retry, excess = 0, count + cost - events
  if excess > 0 and cost <= events then
    local member, i, time, _ = first, left + excess, oldest, nil
    if i > size then
      local _, find = log_functions()
      member, i = find(key, first, last, i, voids, nodes and stop or 0)
    end
    if excess > 1 then
      _, _, time = log_open(member, i)
    end
    retry = math.max(0, math.min(time, now) + period - now)
  end
  if moved then
    oldest, latest = math.min(oldest, now), now
  end
  return count, oldest + period - now, latest + period - now, retry, moved, 0, stale, nodes, stop, last, base, format
end

-- Reads the state for a cost, by default that of the arguments; appends the reading to the reply;
-- calls decide, as take.lua describes it; and does the action that decide returns.
local function sliding_log(key, at, op, decide, other)
  local SMALL = 8 -- a cost up to this is recorded event by event, a larger cost as a bulk
  local cost, events, period = other or ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local count, first_leaves, last_leaves, retry, moved, corrupt, stale, nodes, stop, last, base, format =
    log_read(key, cost, events, period)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = count, first_leaves, last_leaves, retry
  local action = decide(at + 4, op, count + cost <= events, moved, corrupt)
  if not action then
    return
  end

  -- Redis checks maxmemory only at the first write of a script, and not for deletions. The first
  -- write is a ZADD unless the state is replaced, so a spend is rejected as a whole or not at all.
  stop = stop or 0
  if corrupt > 0 then
    redis.call('DEL', key)
  elseif moved or stop + cost > MAX_COUNT then -- numbers do not exceed MAX_COUNT
    local _, _, _, rebase = log_functions()
    stop, last, base, format = rebase(key, last, period)
    stale, cost = nil, math.min(cost, MAX_COUNT - count)
  end
  if action == 'spend' then
    local score = string.format('%d', now)
    if cost > SMALL then
      redis.call('ZADD', key, score, struct.pack('>I6BI7I6', stop, 0, now, cost))
    else
      local width, own = ARGV[at + 3] + 0, '>I' .. ARGV[at + 3]
      local member, offset = last, 0
      local extends = format == own and #last + width <= MEMBER and now - base < 256 ^ width
      if extends then
        offset = now - base
      else
        member = struct.pack('>I6BI7', stop, width, now)
      end
      for i = 1, cost do
        if #member + width > MEMBER then
          redis.call('ZADD', key, score, member)
          member, offset = struct.pack('>I6BI7', stop + i - 1, width, now), 0
        end
        member = member .. struct.pack(own, offset)
      end
      redis.call('ZADD', key, score, member)
      if extends and not nodes and #last + cost * width <= MEMBER then
        redis.call('ZREMRANGEBYRANK', key, '-2', '-2') -- ZREM would search from the first member on
      elseif extends then
        redis.call('ZREM', key, last)
      end
    end
    if stale then
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', stale))
      if nodes then
        redis.call('ZREMRANGEBYSCORE', key, string.format('(%d', NODES), nodes)
      end
    end
  end
  redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
end

-- sliding_log: records the time of every admitted event.
--
-- State      a sorted set. A member holds up to 12 entries; an entry is a time and the number of the
--            events at that time. There is one entry for each time. Redis keeps up to 128 members in
--            one compact block, which then has room for 1500 events of different times. The score
--            of a member is the time of its last entry. Its bytes, big-endian, are
--              6 bytes  the number of its first event; events are numbered in order
--              1 byte   the size of an entry
--              7 bytes  the time of its first entry
--              then     the entries. If all of them are single events, an entry is the span from the
--                       time above to its own time, in 4 to 7 bytes, as the period requires. Other
--                       members add 6 bytes: the count of events up to and including the entry.
--            The count of the window is a difference of two numbers, so the members between them need
--            not be read. The number after MAX_COUNT is 1. Only the first member can have number 0.
--            Events that have left the window may still be there.
-- Arguments  cost, events, period (us), width of a span in an entry
-- Reading    count; three times (us): until the first event leaves the window, until the last event
--            leaves, and until enough events have left for the cost to fit; 0 without such events
-- TTL        one period after the newest event

-- Returns, for a member,
--   the number of its first event
--   the count of its events up to its i-th entry, by default the last
--   the time of that entry
--   the time from which its spans are measured
--   the size of an entry, which is larger than width if entries have a count
--   the count of its entries
-- Returns nothing if the member is unreadable.
local function log_open(member, width, i)
  if #member < 15 then
    return
  end
  local number, size, base = struct.unpack('>I6BI7', member)
  local entries = (#member - 14) / size
  if entries % 1 ~= 0 then -- NaN if size is 0
    return
  end
  local at = 15 + ((i or entries) - 1) * size
  -- width is a text: a concatenation would write a number by printf, which takes longer.
  if size == width + 0 then
    return number, i or entries, base + struct.unpack('>I' .. width, member, at), base, size, entries
  elseif size == width + 6 then
    local span, n = struct.unpack('>I' .. width .. 'I6', member, at)
    return number, n, base + span, base, size, entries
  end
end

-- Finds the first entry of a member that is after a time and contains or follows its n-th event.
-- Returns
--   the number of the first event of the member
--   the count of its events before the entry, or of all its events if there is no such entry
--   the time of the entry, nil if there is none
--   the index of the entry
-- Returns nothing if the member is unreadable.
local function log_seek(member, width, time, n)
  local number, before, newest, base, size, entries = log_open(member, width)
  if not number or newest <= time or before < n then
    return number, before
  elseif base > time and n <= 1 then
    return number, 0, base, 1
  end
  local single, format = size == width + 0, '>I' .. width
  if not single then
    format = format .. 'I6'
  end
  local start = single and n > 1 and n or 1
  before = start - 1
  for i = start, entries do
    local span, through = struct.unpack(format, member, 15 + (i - 1) * size)
    through = single and i or through
    if base + span > time and through >= n then
      return number, before, base + span, i
    end
    before = through
  end
  return number, before
end

-- Adds an entry of n events at a time to a member, which is followed by the results of log_open.
-- Returns the longer member and true. If there is no member or no room, returns a new member, whose
-- first event gets the given number, and false.
local function log_append(width, number, time, n, member, _, through, _, base, size)
  local fits = through and #member + size <= 64 -- Redis keeps no longer members in a compact block
    and (n == 1 or size > width + 0) and through + n <= MAX_COUNT and time - base < 256 ^ width or false
  if not fits then
    through, base, size = 0, time, n == 1 and width + 0 or width + 6
    member = struct.pack('>I6BI7', number == 0 and 0 or (number - 1) % MAX_COUNT + 1, size, time)
  end
  if size == width + 0 then
    return member .. struct.pack('>I' .. width, time - base), fits
  end
  return member .. struct.pack('>I' .. width .. 'I6', time - base, through + n), fits
end

-- Removes members that have left the window at cutoff, at most the given number. Returns the rank of
-- the first member that has not left.
local function log_expire(key, cutoff, most)
  local stale = redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff))
  local removed = math.min(stale, most)
  if removed > 0 then
    redis.call('ZREMRANGEBYRANK', key, '0', string.format('%d', removed - 1))
  end
  return stale - removed
end

-- Returns functions that few calls need. Redis builds them only when this function runs.
local function log_functions()
  -- Returns the time of the n-th event from the beginning of the member first on, by bisection. rank
  -- is the rank of first.
  local function find(key, width, first, rank, n)
    local number = log_open(first, width)
    local low, high, found, index = rank, rank + n - 1, first, n
    while low < high do
      local middle = math.ceil((low + high) / 2)
      local text = string.format('%d', middle)
      local member = redis.call('ZRANGE', key, text, text)[1]
      local before = log_open(member or '', width)
      before = before and (before - number) % MAX_COUNT
      if before and before < n then
        low, found, index = middle, member, n - before
      else
        high = middle - 1
      end
    end
    local _, _, time = log_seek(found, width, -1, index)
    return time
  end

  -- Appends the events of a member after the first i and up to the j-th to a list of members. The first
  -- of these events gets the given number. Returns the number after them.
  local function copy(list, member, width, i, j, number)
    local before, _, _, _, _, _, entries = 0, log_open(member, width)
    for entry = 1, entries or 0 do
      local _, through, time = log_open(member, width, entry)
      local n = math.min(through, j) - math.max(before, i)
      if n > 0 then
        local longer, fits = log_append(width, number, time, n, list[#list], log_open(list[#list] or '', width))
        list[fits and #list or #list + 1] = longer
        number = number + n
      end
      before = through
    end
    return number
  end

  -- Replaces the members from a rank to a rank by a list of members.
  local function replace(key, width, from, to, list)
    redis.call('ZREMRANGEBYRANK', key, string.format('%d', from), string.format('%d', to))
    local pairs = {}
    for i, member in ipairs(list) do
      local _, _, time = log_open(member, width)
      pairs[2 * i - 1], pairs[2 * i] = string.format('%d', time), member
    end
    if list[1] then
      redis.call('ZADD', key, unpack(pairs)) -- up to 8000 values
    end
  end

  -- Removes the events that have left the window at cutoff, so that they do not return when the newest
  -- event is removed. If more than the given number of members have left, the events of the others
  -- return if the clock steps back.
  local function trim(key, width, cutoff, most)
    local rank = log_expire(key, cutoff, most)
    local text = string.format('%d', rank)
    local first, list = redis.call('ZRANGE', key, text, text)[1], {}
    local number, left, time = log_seek(first or '', width, cutoff, 0)
    if time and left > 0 then
      copy(list, first, width, left, MAX_INTEGER, number + left)
      replace(key, width, rank, rank, list)
    end
  end

  -- Removes the events at or after now from a state that is ahead of the clock. Returns the last member,
  -- the number after the last event, and the count of the removed events.
  local function step_back(key, period, width, last, stop)
    local _, _, latest = log_open(last, width)
    trim(key, width, latest - period, MAX_INTEGER)
    local rank = string.format('%d', redis.call('ZCOUNT', key, '-inf', string.format('%d', now - 1)))
    local member, list = redis.call('ZRANGE', key, rank, rank)[1] or '', {}
    local number, kept = log_seek(member, width, now - 1, 0)
    local next = copy(list, member, width, 0, kept, number or stop)
    replace(key, width, rank, -1, list)
    return redis.call('ZREVRANGE', key, '0', '0')[1], next, (stop - next - 1) % MAX_COUNT + 1
  end

  return find, step_back, trim, copy, replace
end

-- Reads the state for a cost. Returns the reading (count, first_leaves, last_leaves, retry) and
--   moved    whether the state has to be written again even if nothing is spent, because the clock
--            stepped back
--   corrupt  1 if the state is unreadable, otherwise 0
--   stop     the number after the last event, 0 if there are no events in the window
--   stale    if members have left the window, the time up to which events have left, otherwise nil
-- and, if there are events in the window, the last member, the count of its events, and base and size
-- as log_open returns them.
local function log_read(key, cost, events, period, width)
  local newest = redis.pcall('ZREVRANGE', key, '0', '0', 'WITHSCORES')
  if newest.err then
    return 0, 0, 0, 0, false, unreadable(newest), 0
  elseif not newest[1] then
    return 0, 0, 0, 0, false, 0, 0
  end
  local last, number, n, latest, base, size = newest[1], log_open(newest[1], width)
  if latest ~= newest[2] + 0 then
    return 0, 0, 0, 0, false, 1, 0
  end
  -- Events that had left when the newest event was admitted do not return when the clock steps
  -- back.
  local moved, cutoff, stop = latest > now, math.max(latest, now) - period, number + n
  if latest <= cutoff then
    return 0, 0, 0, 0, false, 0, 0, cutoff
  end

  -- Otherwise, the first member of all is mostly in the window, and takes less time to find than the
  -- first one after a score.
  local first, stale = number == 0 and last or redis.call('ZRANGE', key, '0', '0')[1], nil
  local left, oldest
  number, left, oldest = log_seek(first, width, cutoff, 0)
  if not oldest or oldest > latest then
    stale = cutoff
    first = redis.call('ZRANGEBYSCORE', key, string.format('(%d', cutoff), '+inf', 'LIMIT', '0', '1')[1]
    number, left, oldest = log_seek(first, width, cutoff, 0)
    if not oldest or oldest > latest then
      return 0, 0, 0, 0, false, 1, 0
    end
  end
  local count = (stop - number - left - 1) % MAX_COUNT + 1

  local retry, excess = 0, count + cost - events
  if excess > 0 and cost <= events then
    local time, _ = oldest, nil
    if excess > 1 then
      _, _, time = log_seek(first, width, cutoff, left + excess)
    end
    if not time then
      local rank = stale and redis.call('ZCOUNT', key, '-inf', string.format('%d', stale)) or 0
      time = log_functions()(key, width, first, rank, left + excess) or now
    end
    retry = math.max(0, math.min(time, now) + period - now)
  end
  if moved then
    oldest, latest = math.min(oldest, now), now
  end
  return count, oldest + period - now, latest + period - now, retry, moved, 0, stop, stale, last, n, base, size
end

-- Reads the state for a cost, by default that of the arguments; appends the reading to the reply;
-- calls decide, as take.lua describes it; and does the action that decide returns.
local function sliding_log(key, at, op, decide, other)
  local cost, events, period, width = other or ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3]
  local count, first_leaves, last_leaves, retry, moved, corrupt, stop, stale, last, n, base, size =
    log_read(key, cost, events, period, width)
  local place, _ = #reply, nil
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = count, first_leaves, last_leaves, retry
  local action = decide(at + 4, op, count + cost <= events, moved, corrupt)
  if not action then
    return
  end

  -- Redis checks maxmemory only at the first write of a script, and not for deletions. The first
  -- write is a ZADD unless the state is replaced, so a spend is rejected as a whole or not at all.
  cost = action == 'spend' and math.min(cost, MAX_COUNT - count) or 0
  local rest = last -- without an entry at now
  if corrupt > 0 then
    redis.call('DEL', key)
  elseif moved then
    local _, step_back = log_functions()
    last, stop, count = step_back(key, period, width, last, stop)
    _, n, _, base, size = log_open(last or '', width)
    rest, cost, stale = last, math.min(cost + count, MAX_COUNT), nil
  elseif last_leaves == period then
    rest = string.sub(last, 1, -size - 1)
    stop, cost = stop - n, cost + n
    _, n = log_open(rest, width)
    stop, cost = stop + (n or 0), cost - (n or 0)
  end
  local score = string.format('%d', now)
  local member, extends = log_append(width, stop, now, cost, rest, _, n, _, base, size)
  redis.call('ZADD', key, score, member)
  if rest ~= last then
    redis.call('ZREM', key, last)
    if n and not extends then
      local _, _, time = log_open(rest, width)
      redis.call('ZADD', key, string.format('%d', time), rest)
    end
  elseif extends then
    redis.call('ZREMRANGEBYRANK', key, '-2', '-2') -- ZREM would search from the first member on
  end
  if stale then
    log_expire(key, stale, 200)
  end
  redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
end

-- sliding_log: records the times of admitted events.
--
-- State      a sorted set. There is one entry for each time, and a member holds up to 12 entries. Redis
--            keeps up to 128 members in one compact block, that is 1500 entries. The score of a member
--            is the time of its last entry. Its bytes, big-endian, are
--              6 bytes  the number of its first event; MAX_COUNT is followed by 1, not by 0
--              1 byte   the size of an entry
--              7 bytes  the time of its first entry
--              then     entries: the span from that time, in 4 to 7 bytes, as the period requires, and
--                       in 6 bytes the count of events up to and including the entry. If every entry
--                       is one event, there are no counts.
--            The count of the window is a difference of two numbers, so the members between them need
--            not be read. Members that have left the window may still be there.
-- Arguments  cost, events, period (us), width: the bytes of a span, as a text
-- Reading    count; three times (us): until the first event leaves the window, until the last event
--            leaves, and until enough events have left for the cost to fit; 0 without such events
-- TTL        one period after the newest event
-- Inserted   MAX_COUNT

-- Returns, for a member: the number of its first event; the count of its events up to the i-th entry,
-- by default the last; the time of that entry; the time of the first entry; the size of an entry; the
-- count of entries. Returns nothing if the member is unreadable.
local function log_open(member, width, i)
  if #member < 15 then
    return
  end
  local number, size, base = struct.unpack('>I6BI7', member)
  local entries, counts = (#member - 14) / size, size == width + 6
  if entries % 1 == 0 and (counts or size == width + 0) then -- a size of 0 makes a NaN
    local span, n = struct.unpack('>I' .. width .. (counts and 'I6' or ''), member, 15 + ((i or entries) - 1) * size)
    return number, counts and i ~= 0 and n or i or entries, base + span, base, size, entries
  end
end

-- Finds the first entry of a member that is after a time and contains or follows its n-th event.
-- Returns the number of the member's first event; the count of its events before the entry; the time
-- and the index of the entry. Without such an entry, returns at most the first two.
local function log_seek(member, width, time, n)
  local number, before, newest, base, size, entries = log_open(member, width)
  if not number or newest <= time or before < n then
    return number, before
  elseif base > time and n <= 1 then
    return number, 0, base, 1
  end
  local counts = size > width + 0
  local format, start = '>I' .. width .. (counts and 'I6' or ''), counts and 1 or math.max(n, 1)
  before = start - 1
  for i = start, entries do
    local span, through = struct.unpack(format, member, 15 + (i - 1) * size)
    if base + span > time and (not counts or through >= n) then
      return number, before, base + span, i
    end
    before = counts and through or i
  end
end

-- Adds an entry of n events at a time to a member, for which log_open has returned the last arguments.
-- Returns the member and true. Without a member or room, returns a new one with number, and false.
local function log_append(width, number, time, n, member, _, through, _, base, size)
  -- Redis keeps no members of more than 64 bytes in a compact block.
  local fits = through and #member + size <= 64 and (n == 1 or size > width + 0)
    and through + n <= MAX_COUNT and time - base < 256 ^ width or false
  if not fits then
    through, base, size = 0, time, n == 1 and width + 0 or width + 6
    member = struct.pack('>I6BI7', number == 0 and 0 or (number - 1) % MAX_COUNT + 1, size, time)
  end
  return member .. struct.pack('>I' .. width .. (size > width + 0 and 'I6' or ''), time - base, through + n), fits
end

-- Returns functions that few calls need. Redis builds them only when this function runs.
local function log_functions()
  -- Returns the time of the n-th event of the window. left events of its first member have left.
  local function find(key, width, found, cutoff, left, n)
    local low, first = redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff)), log_open(found, width) + left
    local high, index = low + n - 1, left + n
    while low < high do
      local middle = math.ceil((low + high) / 2)
      local rank = string.format('%d', middle)
      local member = redis.call('ZRANGE', key, rank, rank)[1] or ''
      local before = ((log_open(member, width) or 1 / 0) - first) % MAX_COUNT
      if before < n then -- false for NaN, if there is no member
        low, found, index = middle, member, n - before
      else
        high = middle - 1
      end
    end
    return select(3, log_seek(found, width, -1, index))
  end

  -- Removes events of the members with the ranks from to to: the events after the i-th up to the j-th.
  -- members are the first of these members, or all; other members are removed. The first event that
  -- remains gets the given number. Returns the number after the last one.
  local function cut(key, width, from, to, members, i, j, number)
    local list = {}
    for _, member in ipairs(members) do
      local last, before, _, count, _, _, _, entries = list[#list] or '', 0, log_open(member, width)
      if j <= 0 and count and #last + #member - 14 > 64 then -- else the events fit into last
        list[#list + 1] = struct.pack('>I6', (number - 1) % MAX_COUNT + 1) .. string.sub(member, 7)
        number, entries = number + count, 0
      end
      for entry = 1, entries or 0 do
        local _, through, time = log_open(member, width, entry)
        local n, fits = through - before - math.max(0, math.min(through, j) - math.max(before, i)), nil
        if n > 0 then
          last, fits = log_append(width, number, time, n, last, log_open(last, width))
          list[fits and #list or #list + 1], number = last, number + n
        end
        before = through
      end
      i, j = i - (count or 0), j - (count or 0)
    end
    redis.call('ZREMRANGEBYRANK', key, from, to)
    for _, member in ipairs(list) do
      redis.call('ZADD', key, string.format('%d', select(3, log_open(member, width))), member)
    end
    return number
  end

  -- Removes the events that have left the window at cutoff, so that they do not return when the newest
  -- event is removed. Events of more than most members (200) return if the clock steps back.
  local function trim(key, width, cutoff, most)
    most = most or 200
    local left = redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff))
    if left > 0 then
      redis.call('ZREMRANGEBYRANK', key, '0', string.format('%d', math.min(left, most) - 1))
    end
    local rank = string.format('%d', math.max(0, left - most))
    local first = redis.call('ZRANGE', key, rank, rank)[1]
    local number, events, time = log_seek(first or '', width, cutoff, 0)
    if time and events > 0 then
      cut(key, width, rank, rank, { first }, 0, events, number + events)
    end
  end

  -- Removes the events at or after now. Returns the last member, the number after it, and their count.
  local function step_back(key, width, cutoff, stop)
    trim(key, width, cutoff, math.huge)
    local rank = string.format('%d', redis.call('ZCOUNT', key, '-inf', string.format('%d', now - 1)))
    local member = redis.call('ZRANGE', key, rank, rank)[1]
    local number, kept = log_seek(member or '', width, now - 1, 0)
    local next = cut(key, width, rank, '-1', { member }, kept or 0, math.huge, number or stop)
    return redis.call('ZREVRANGE', key, '0', '0')[1], next, (stop - next - 1) % MAX_COUNT + 1
  end

  return find, cut, trim, step_back
end

-- Reads the state for a cost, by default that of the arguments; appends the reading to the reply;
-- calls decide, as take.lua describes it; and does the action that decide returns.
local function sliding_log(key, at, op, decide, other)
  local cost, events, period, width = other or ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3]
  local place, corrupt, moved, stop, count, _ = #reply, 0, false, 0, 0, nil -- stop is the number after the last event
  local last, stale, cutoff, number, n, latest, base, size -- last is nil if no event is in the window
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local newest = redis.pcall('ZREVRANGE', key, '0', '0', 'WITHSCORES')
  if newest.err then
    corrupt = unreadable(newest)
  elseif newest[1] then
    number, n, latest, base, size = log_open(newest[1], width)
    -- Events that had left when the newest event was admitted do not return when the clock steps back.
    cutoff = math.max(latest or 0, now) - period
    corrupt, stale = latest ~= newest[2] + 0 and 1 or 0, latest and latest <= cutoff
    last = corrupt == 0 and not stale and newest[1] or nil
  end
  if last then
    -- The first member of all is mostly in the window, and takes less time to find than by its score.
    local first = number == 0 and last or redis.call('ZRANGE', key, '0', '0')[1]
    local begin, left, oldest = log_seek(first, width, cutoff, 0)
    if not oldest or oldest > latest then
      stale, first = true, redis.call('ZRANGEBYSCORE', key, string.format('(%d', cutoff), '+inf', 'LIMIT', '0', '1')[1]
      begin, left, oldest = log_seek(first, width, cutoff, 0)
    end
    if not oldest or oldest > latest then
      last, corrupt = nil, 1
    else
      moved, stop = latest > now, number + n
      count = (stop - begin - left - 1) % MAX_COUNT + 1
      local excess, time = count + cost - events, oldest
      if excess > 1 and cost <= events then
        _, _, time = log_seek(first, width, cutoff, left + excess)
        time = time or log_functions()(key, width, first, cutoff, left, excess) or now
      end
      reply[place + 1], reply[place + 2] = count, math.min(oldest, now) + period - now
      reply[place + 3] = math.min(latest, now) + period - now
      reply[place + 4] = excess > 0 and cost <= events and math.max(0, math.min(time, now) + period - now) or 0
    end
  end
  local action, taken = decide(at + 4, op, count + cost <= events, moved, corrupt, events - count)
  if not action then
    return
  end
  -- Redis checks maxmemory only at the first write of a script, and not for deletions. The first
  -- write is a ZADD unless the state is replaced, so a spend is rejected as a whole or not at all.
  cost = action == 'spend' and math.min(taken or cost, MAX_COUNT - count) or 0
  local rest, time = last, nil -- the last member without an entry at now
  if corrupt > 0 then
    redis.call('DEL', key)
  elseif moved then
    local _, _, _, step_back = log_functions()
    last, stop, count = step_back(key, width, cutoff, stop)
    _, n, _, base, size = log_open(last or '', width)
    rest, cost, stale = last, math.min(cost + count, MAX_COUNT), nil
  elseif last and latest == now then
    rest, stop, cost = string.sub(last, 1, -size - 1), stop - n, cost + n
    _, n, time = log_open(rest, width)
    stop, cost = stop + (n or 0), cost - (n or 0)
  end
  local member, extends = log_append(width, stop, now, cost, rest, _, rest and n, _, base, size)
  redis.call('ZADD', key, string.format('%d', now), member)
  if rest ~= last then
    redis.call('ZREM', key, last)
  elseif extends then
    redis.call('ZREMRANGEBYRANK', key, '-2', '-2') -- ZREM would search from the first member on
  end
  if time and not extends then
    redis.call('ZADD', key, string.format('%d', time), rest)
  end
  if stale and corrupt == 0 then
    local left = redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff))
    redis.call('ZREMRANGEBYRANK', key, '0', string.format('%d', math.max(1, math.min(left, 200)) - 1)) -- below 1 ms
  end
  redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
end

algorithms.sliding_log = sliding_log -- a charge of take.lua and at_most.lua; sliding_log_adjust.lua replaces it

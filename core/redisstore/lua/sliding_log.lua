-- sliding_log: the time of every admitted event, in a sorted set.
--
-- State     a sorted set. A member holds up to 12 events, so that 128 members, up
--           to which Redis keeps the set in one compact block, hold 1500 of them.
--           Its score is the time of its newest event, and it is big-endian:
--             6 bytes  how many events were recorded before it, ever
--             1 byte   width of an offset, 4 to 7, or 0 for a bulk
--             7 bytes  the time of its oldest event
--             then     an offset from that time for every event; or, in a bulk,
--                      6 bytes: how many events happened at that time
--           The running number makes members unique, keeps those of the same
--           microsecond in order, and gives the count of the window as a
--           difference, without reading what lies between.
-- Arguments cost, events, period (us), width
-- Reading   count; how long until the first, the last, and enough events for the
--           cost leave the window (us), 0 if there are none
-- TTL       one period after the newest event

--- functions
local HEADER, MEMBER = 14, 64 -- bytes; 64 is the longest that stays compact
local WRAP = 281474976710656 -- running numbers go round at 2^48
local SMALL = 8 -- costs up to this are recorded one by one, others as a bulk

local function log_open(member)
  if #member <= HEADER then
    return nil
  end
  local before, width, base = struct.unpack('>I6BI7', member)
  if width == 0 then
    if #member ~= HEADER + 6 then
      return nil
    end
    return { width = 0, before = before, base = base, n = (struct.unpack('>I6', member, HEADER + 1)) }
  end
  local n = (#member - HEADER) / width
  if width < 4 or width > 7 or n % 1 ~= 0 then
    return nil
  end
  return { width = width, before = before, base = base, n = n, bytes = member }
end

-- The time of the i-th event of a member.
local function log_time(chunk, i)
  if chunk.width == 0 then
    return chunk.base
  end
  return chunk.base + struct.unpack('>I' .. chunk.width, chunk.bytes, HEADER + 1 + (i - 1) * chunk.width)
end

-- The time of the n-th event of the window, which begins after `left` events of
-- the member `first`, by bisection.
local function log_nth(key, first, left, n)
  local number = left + n
  local low, high = 0, call('ZCARD', key) - 1
  while low < high do
    local middle = math.ceil((low + high) / 2)
    local chunk = log_open(call('ZRANGE', key, middle, middle)[1])
    if chunk and (chunk.before - first.before) % WRAP < number then
      low = middle
    else
      high = middle - 1
    end
  end
  local chunk = log_open(call('ZRANGE', key, low, low)[1])
  return chunk and log_time(chunk, math.max(1, math.min(chunk.n, number - (chunk.before - first.before) % WRAP)))
end

-- Fills in the last chunk, the first one that reaches into the window, and how
-- many of its events have left. False if the set cannot be read.
local function log_window(key, plan)
  local newest = pcall('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  if newest.err then
    return false
  end
  if #newest == 0 then
    return true
  end
  plan.last, plan.newest = log_open(newest[1]), tonumber(newest[2])
  if not plan.last or log_time(plan.last, plan.last.n) ~= plan.newest then
    return false
  end
  -- What had left when the newest event was admitted does not come back when
  -- the clock steps back.
  plan.cutoff = math.max(now, plan.newest) - plan.period
  if plan.newest <= plan.cutoff then
    return true
  end
  local first = call('ZRANGEBYSCORE', key, format('(%d', plan.cutoff), '+inf', 'LIMIT', 0, 1)[1]
  local chunk = first == newest[1] and plan.last or log_open(first)
  if not chunk then
    return false
  end
  local left = 0
  while left < chunk.n and log_time(chunk, left + 1) <= plan.cutoff do
    left = chunk.width == 0 and chunk.n or left + 1
  end
  plan.first, plan.left = chunk, left
  plan.count = (plan.last.before + plan.last.n - chunk.before) % WRAP - left
  return left < chunk.n and plan.count > 0 and log_time(chunk, left + 1) <= plan.newest
end

local function log_read(key, cost, events, period, width)
  local plan = {
    cost = cost + 0, events = events + 0, period = period + 0, width = width + 0,
    count = 0, first_leaves = 0, last_leaves = 0, retry = 0, corrupt = 0,
  }
  if not log_window(key, plan) then
    plan.corrupt, plan.last, plan.first, plan.count = 1, nil, nil, 0
  end
  if plan.first then
    plan.first_leaves = math.min(log_time(plan.first, plan.left + 1), now) + plan.period - now
    plan.last_leaves = math.min(plan.newest, now) + plan.period - now
    local excess = plan.count + plan.cost - plan.events
    if excess > 0 and plan.cost <= plan.events then
      local at_which
      if plan.left + excess <= plan.first.n then
        at_which = log_time(plan.first, plan.left + excess)
      else
        at_which = log_nth(key, plan.first, plan.left, excess)
      end
      plan.retry = math.max(0, math.min(at_which or now, now) + plan.period - now)
    end
  end
  return plan
end

local function log_add(key, time, member)
  call('ZADD', key, format('%d', time), member)
end

local function log_expire(key, plan)
  call('PEXPIRE', key, format('%d', math.ceil(plan.period / 1000) + slack))
end

local function log_header(width, before, base)
  return struct.pack('>I6BI7', before, width, base)
end

-- Writes the whole window anew, with the events after now moved to now.
local function log_rebase(key, plan)
  local members = call('ZRANGEBYSCORE', key, format('(%d', plan.cutoff), '+inf')
  call('DEL', key)
  local before, late = 0, 0
  for _, member in ipairs(members) do
    local chunk = log_open(member)
    if chunk and chunk.width == 0 then
      if chunk.base > now then
        late = late + chunk.n
      else
        plan.last = { width = 0, before = before, base = chunk.base, n = chunk.n }
        log_add(key, chunk.base, log_header(0, before, chunk.base) .. struct.pack('>I6', chunk.n))
        before = before + chunk.n
      end
    elseif chunk then
      local kept, newest = {}, nil
      for i = 1, chunk.n do
        local time = log_time(chunk, i)
        if time > now then
          late = late + 1
        elseif time > plan.cutoff then
          kept[#kept + 1] = struct.pack('>I' .. chunk.width, time - chunk.base)
          newest = time
        end
      end
      if newest then
        local member = log_header(chunk.width, before, chunk.base) .. table.concat(kept)
        log_add(key, newest, member)
        before, plan.last = before + #kept, log_open(member)
      end
    end
  end
  if late > 0 then
    local member = log_header(0, before, now) .. struct.pack('>I6', late)
    log_add(key, now, member)
    plan.last = log_open(member)
  end
  plan.newest, plan.cutoff = now, now - plan.period
end

-- The first write is a ZADD wherever it can be: Redis refuses to grow beyond
-- maxmemory only until a script has written something.
local function log_spend(key, plan)
  if plan.corrupt > 0 then
    call('DEL', key)
  elseif plan.first and (plan.newest > now or plan.last.before + plan.last.n + plan.cost >= WRAP) then
    log_rebase(key, plan)
  end
  local last = plan.first and plan.last
  local before = last and (last.before + last.n) % WRAP or 0
  local extended
  if plan.cost > SMALL then
    log_add(key, now, log_header(0, before, now) .. struct.pack('>I6', plan.cost))
  else
    local width, offset = plan.width, 0
    local member = log_header(width, before, now)
    if last and last.width == width and #last.bytes + width <= MEMBER and now - last.base < 256 ^ width then
      extended, member, offset = last.bytes, last.bytes, now - last.base
    end
    for i = 1, plan.cost do
      if #member + width > MEMBER then
        log_add(key, now, member)
        member, offset = log_header(width, (before + i - 1) % WRAP, now), 0
      end
      member = member .. struct.pack('>I' .. width, offset)
    end
    log_add(key, now, member)
  end
  if extended then
    call('ZREM', key, extended)
  elseif plan.cutoff then
    call('ZREMRANGEBYSCORE', key, '-inf', format('%d', plan.cutoff))
  end
  log_expire(key, plan)
end

--- telling
-- Forgets what has left the window. It must not come back when the newest event is
-- another.
local function log_trim(key, plan)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%d', plan.cutoff))
  local first, left = plan.first, plan.left
  if left > 0 then
    call('ZREM', key, first.bytes)
    log_add(key, log_time(first, first.n),
      log_header(first.width, (first.before + left) % WRAP, first.base) .. string.sub(first.bytes, HEADER + 1 + left * first.width))
  end
end

-- Takes the n newest events of the window out.
local function log_give(key, plan, n)
  if not plan.first then
    return
  end
  if plan.newest > now then
    log_rebase(key, plan)
  else
    log_trim(key, plan)
  end
  while n > 0 do
    local chunk = log_open(call('ZREVRANGE', key, 0, 0)[1] or '')
    if not chunk then
      return
    end
    call('ZREMRANGEBYRANK', key, -1, -1)
    if chunk.n > n then
      local kept = chunk.n - n
      if chunk.width == 0 then
        log_add(key, chunk.base, log_header(0, chunk.before, chunk.base) .. struct.pack('>I6', kept))
      else
        log_add(key, log_time(chunk, kept), string.sub(chunk.bytes, 1, HEADER + kept * chunk.width))
      end
    end
    n = n - chunk.n
  end
end

-- The events of a member but for n that were recorded at `time`, as bytes; their
-- number; and the time of the newest of them.
local function log_without(chunk, n, time)
  if chunk.width == 0 then
    local count = chunk.base == time and math.max(0, chunk.n - n) or chunk.n
    return struct.pack('>I6', count), count, chunk.base
  end
  local kept, newest = {}, nil
  for i = 1, chunk.n do
    local at = log_time(chunk, i)
    if at ~= time or i - #kept > n then
      kept[#kept + 1], newest = struct.pack('>I' .. chunk.width, at - chunk.base), at
    end
  end
  return table.concat(kept), #kept, newest
end

-- Takes n events that were recorded at `time` out again. After a clock that stepped
-- back they cannot be told from others.
local function log_undo(key, plan, n, time)
  if not plan.first or plan.newest > now then
    return
  end
  log_trim(key, plan)
  local removed = 0
  for _, member in ipairs(call('ZRANGEBYSCORE', key, format('%d', time), '+inf')) do
    local chunk = log_open(member)
    if not chunk then
      return
    end
    local rest, count, newest = log_without(chunk, n - removed, time)
    local header = log_header(chunk.width, (chunk.before - removed) % WRAP, chunk.base)
    removed = removed + chunk.n - count
    if count == 0 then
      call('ZREM', key, member)
    elseif header .. rest ~= member then
      call('ZREM', key, member)
      log_add(key, newest, header .. rest)
    end
  end
end

--- read
local plan_N = log_read(KEYS[I_N], ARGV[A_N + 1], ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- fits plan_N.count + plan_N.cost <= plan_N.events

--- spend
log_spend(KEYS[I_N], plan_N)

--- touch
if plan_N.first and plan_N.newest > now then
  log_rebase(KEYS[I_N], plan_N)
  log_expire(KEYS[I_N], plan_N)
end

--- settle
plan_N.cost = math.min(plan_N.cost, WRAP - 1 - plan_N.count)
if plan_N.cost > 0 then
  log_spend(KEYS[I_N], plan_N)
end
plan_N = log_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- undo
if now - ARGV[M_N + 1] >= ARGV[M_N + 4] + 0 then -- the clock has not stepped back since
  log_undo(KEYS[I_N], plan_N, plan_N.cost, ARGV[M_N + 1] + 0)
end
log_expire(KEYS[I_N], plan_N)
plan_N = log_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- give
log_give(KEYS[I_N], plan_N, plan_N.cost)
log_expire(KEYS[I_N], plan_N) -- the key may have been empty, and so gone, in between
plan_N = log_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- corrupt plan_N.corrupt

--- report plan_N.count, plan_N.first_leaves, plan_N.last_leaves, plan_N.retry

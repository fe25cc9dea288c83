-- sliding_log: the time of every admitted event, in a sorted set.
--
-- State     a sorted set. A member holds up to 12 events, so that 128 members, up
--           to which Redis keeps the set in one compact block, hold 1500 of them.
--           Its score is the time of its newest event, and it is big-endian:
--             6 bytes  the number of its first event; events are numbered in order
--             1 byte   width of an offset, 4 to 7, or 0 for a bulk
--             7 bytes  a time, no later than that of its oldest event
--             then     an offset from that time for every event; or, in a bulk,
--                      6 bytes: how many events happened at that time
--           The number makes members unique, keeps those of the same microsecond in
--           order, and gives the count of the window as a difference, without
--           reading what lies between.
--           Undone events leave a gap between the numbers of two members: void
--           numbers. Numbers form blocks of 64, and a member belongs to the block of
--           its last number. A gap follows the last member of a block, and its
--           numbers count as void numbers of that block. A Fenwick tree holds their
--           sums. Node i > 0 is a member with the score 2^53 + 2 i, which is above
--           every time; it covers the blocks from i - 1 on, as many as the largest
--           power of 2 that divides i:
--             6 bytes  i
--             6 bytes  how many numbers of these blocks are void; not zero
--           The nodes of blocks before the window are out of date and not read.
-- Arguments cost, events, period (us), width
-- Reading   count; how long until the first, the last, and enough events for the
--           cost leave the window (us), 0 if there are none
-- TTL       one period after the newest event

--- functions
local HEADER, MEMBER = 14, 64 -- bytes; 64 is the longest that stays compact
local END = 281474976710656 -- 2^48; numbers stay below it
local SMALL = 8 -- costs up to this are recorded one by one, others as a bulk
local BLOCK = 64 -- numbers
local NODES = 9007199254740992 -- 2^53

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

-- The time of the i-th event of a member.
local function log_time(chunk, i)
  if chunk.width == 0 then
    return chunk.base
  end
  return chunk.base + struct.unpack('>I' .. chunk.width, chunk.bytes, HEADER + 1 + (i - 1) * chunk.width)
end

-- How many events of a member happened at or before a time.
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

-- How many numbers are void in the block that ends with the numbers below the given
-- one, and in all blocks after it; not a number if a node cannot be read.
local function log_voids(key, plan, number)
  local node, last = math.floor((number - 1) / BLOCK) + 1, (plan.last.before + plan.last.n) / BLOCK
  local sum, lowest = 0, 1
  while plan.voided and node < last do -- no number follows the last member
    if node % (2 * lowest) ~= 0 then
      local score = format('%d', NODES + 2 * node)
      local member = call('ZRANGEBYSCORE', key, score, score)[1]
      if member then
        sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0 / 0)
      end
      node = node + lowest
    end
    lowest = 2 * lowest
  end
  return sum
end

-- The member with the n-th event of the window, the place of that event in it, and
-- its rank, by bisection.
local function log_find(key, plan, n)
  local number, chunk, left, at = plan.first.before + plan.left + n, nil, nil, nil
  local low, high = call('ZRANK', key, plan.first.bytes), call('ZRANK', key, plan.last.bytes)
  while low <= high do
    local rank = math.floor((low + high) / 2)
    local middle = log_open(call('ZRANGE', key, rank, rank)[1])
    local before = middle and middle.before - (plan.voids - log_voids(key, plan, middle.before + middle.n))
    if middle and before < number then
      chunk, left, at, low = middle, number - before, rank, rank + 1
    else
      high = rank - 1
    end
  end
  return chunk, chunk and math.min(chunk.n, left), at
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
  plan.newest = newest[2] + 0
  if plan.newest > NODES then
    plan.voided = true
    newest = call('ZREVRANGEBYSCORE', key, format('%d', NODES), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #newest == 0 then
      return false
    end
    plan.newest = newest[2] + 0
  end
  plan.last = log_open(newest[1])
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
  local left = log_until(chunk, plan.cutoff)
  plan.first, plan.left = chunk, left
  plan.voids = plan.voided and log_voids(key, plan, chunk.before + chunk.n) or 0
  plan.count = plan.last.before + plan.last.n - chunk.before - left - plan.voids
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
      local chunk, i = plan.first, plan.left + excess
      if i > chunk.n then
        chunk, i = log_find(key, plan, excess)
      end
      plan.retry = math.max(0, math.min(chunk and log_time(chunk, i) or now, now) + plan.period - now)
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
  local members = call('ZRANGEBYSCORE', key, format('(%d', plan.cutoff), format('%d', NODES))
  call('DEL', key)
  local number, late = 0, 0
  plan.first, plan.last = nil, nil
  local function put(member)
    local chunk = log_open(struct.pack('>I6', number) .. string.sub(member, 7))
    log_add(key, log_time(chunk, chunk.n), chunk.bytes)
    number = number + chunk.n
    plan.first, plan.last = plan.first or chunk, chunk
  end
  for _, member in ipairs(members) do
    local chunk = log_open(member)
    if chunk then
      local left, past = log_until(chunk, plan.cutoff), log_until(chunk, now)
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
  plan.left, plan.voids, plan.voided = 0, 0, false
  plan.newest, plan.cutoff = now, now - plan.period
end

-- The first write is a ZADD wherever it can be: Redis refuses to grow beyond
-- maxmemory only until a script has written something.
local function log_spend(key, plan)
  if plan.corrupt > 0 then
    call('DEL', key)
  elseif plan.first and (plan.newest > now or plan.last.before + plan.last.n + plan.cost >= END) then
    log_rebase(key, plan)
  end
  local last = plan.first and plan.last
  local before = last and last.before + last.n or 0
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
        member, offset = log_header(width, before + i - 1, now), 0
      end
      member = member .. struct.pack('>I' .. width, offset)
    end
    log_add(key, now, member)
  end
  if extended then
    call('ZREM', key, extended)
  elseif plan.cutoff then
    call('ZREMRANGEBYSCORE', key, '-inf', format('%d', plan.cutoff))
    if plan.voided then
      local score = '+inf'
      if plan.first and plan.voids > 0 then
        local node = math.floor((plan.first.before + plan.first.n - 1) / BLOCK)
        score = format('%d', NODES + 2 * node)
      end
      call('ZREMRANGEBYSCORE', key, format('(%d', NODES), score)
    end
  end
  log_expire(key, plan)
end

--- adjust
-- The node of the block that ends with the numbers below the given one.
local function log_block(number)
  return math.floor((number - 1) / BLOCK) + 1
end

local function log_at(key, rank)
  return rank >= 0 and log_open(call('ZRANGE', key, rank, rank)[1] or '')
end

-- A member with another number.
local function log_number(chunk, number)
  return log_open(struct.pack('>I6', number) .. string.sub(chunk.bytes, 7))
end

-- The events i to j of a member, as another.
local function log_slice(chunk, i, j)
  if chunk.width == 0 then
    return log_open(log_header(0, chunk.before, chunk.base) .. struct.pack('>I6', j - i + 1))
  end
  return log_open(string.sub(chunk.bytes, 1, HEADER)
    .. string.sub(chunk.bytes, HEADER + 1 + (i - 1) * chunk.width, HEADER + j * chunk.width))
end

-- Forgets what has left the window. It must not come back when the newest event is
-- another.
local function log_trim(key, plan)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%d', plan.cutoff))
  local first, left = plan.first, plan.left
  if left > 0 then
    local rest = log_number(log_slice(first, left + 1, first.n), first.before + left)
    call('ZREM', key, first.bytes)
    log_add(key, log_time(rest, rest.n), rest.bytes)
    plan.first, plan.left = rest, 0
    plan.last = plan.last == first and rest or plan.last
  end
end

-- Changes the nodes that cover a block, given as its node, by change(past), where
-- `past` is the first number that they do not cover.
local function log_change(key, plan, node, change)
  local lowest, first = 1, log_block(plan.first.before + plan.first.n)
  while node >= first do
    if node % (2 * lowest) ~= 0 then
      local score = format('%d', NODES + 2 * node)
      local member = call('ZRANGEBYSCORE', key, score, score)[1]
      local sum = change((node + lowest - 1) * BLOCK)
      if member then
        sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0)
        call('ZREM', key, member)
      end
      if sum > 0 then
        call('ZADD', key, score, struct.pack('>I6I6', node, sum))
      end
      node = node - lowest
    end
    lowest = 2 * lowest
  end
end

-- Takes the n newest events of the window out. What is left of the last member follows
-- the member before it without a gap.
local function log_give(key, plan, n)
  if not plan.first then
    return
  end
  if plan.newest > now then
    log_rebase(key, plan)
  else
    log_trim(key, plan)
  end
  local chunk, kept, rank
  if n < plan.count then
    chunk, kept, rank = log_find(key, plan, plan.count - n)
  end
  if not chunk then
    call('DEL', key)
    return
  end
  local last, prior = log_slice(chunk, 1, kept), log_at(key, rank - 1)
  if plan.voided then
    local node = 1
    if prior then
      last = log_number(last, prior.before + prior.n)
      node = log_block(last.before)
    end
    local voids = log_voids(key, plan, node * BLOCK)
    log_change(key, plan, node, function(past)
      return log_voids(key, plan, past + 1) - voids
    end)
    call('ZREMRANGEBYSCORE', key, format('%d', NODES + 2 * node), '+inf')
  end
  local newest = call('ZRANK', key, plan.last.bytes)
  call('ZREMRANGEBYRANK', key, rank, newest)
  log_add(key, log_time(last, kept), last.bytes)
end

-- Appends a member to a list, or its events to the last one if they fit.
local function log_append(list, chunk)
  local last, width = list[#list], chunk.width
  if not last or width == 0 or last.width ~= width or #last.bytes + #chunk.bytes - HEADER > MEMBER
    or log_time(chunk, chunk.n) - last.base >= 256 ^ width then
    list[#list + 1] = chunk
    return
  end
  local member = last.bytes
  for i = 1, chunk.n do
    local offset = log_time(chunk, i) - last.base
    member = member .. struct.pack('>I' .. width, offset)
  end
  list[#list] = log_open(member)
end

-- Takes n events that were recorded at `time` out again. After a clock that stepped
-- back they cannot be told from others.
--
-- All members of the block are numbered anew, so that they follow the member before
-- them without a gap, and so are the members after them that then fit into the block
-- of the last of them; the gap that remains comes after those. So there are few gaps
-- (one for every 16 events at most), however many events are undone. The members of
-- the first block keep the number of their last event instead: what is before them
-- does not count, and so the first block of the window never becomes an earlier one.
local function log_undo(key, plan, n, time)
  if not plan.first or plan.newest > now then
    return
  end
  log_trim(key, plan)
  local found = log_open(call('ZRANGEBYSCORE', key, format('%d', time), '+inf', 'LIMIT', 0, 1)[1] or '')
  if not found or log_until(found, time - 1) == log_until(found, time) then
    return
  end
  local node, from = log_block(found.before + found.n), call('ZRANK', key, found.bytes)
  local rank = from
  local prior = log_at(key, rank - 1)
  while prior and log_block(prior.before + prior.n) == node do
    rank = rank - 1
    prior = log_at(key, rank - 1)
  end

  local changes = {} -- of the void numbers of blocks
  local function gap(chunk, next, sign)
    local size = chunk and next and next.before - chunk.before - chunk.n or 0
    if size > 0 then
      local at = log_block(chunk.before + chunk.n)
      changes[at] = (changes[at] or 0) + sign * size
    end
  end
  local old, list, last, chunk = {}, {}, prior, log_at(key, rank)
  local start, left = prior and prior.before + prior.n, 0
  while chunk do
    local kept, past = 0, 0
    if n > 0 and rank >= from and chunk.base <= time then
      kept = log_until(chunk, time - 1)
      past = math.min(log_until(chunk, time), kept + n)
    end
    if kept == past and log_block(chunk.before + chunk.n) ~= node
      and not (start and start + left + chunk.n <= log_block(start + left) * BLOCK) then
      break
    end
    if kept == past then
      log_append(list, chunk)
    else
      if kept > 0 then
        log_append(list, log_slice(chunk, 1, kept))
      end
      if past < chunk.n then
        log_append(list, log_slice(chunk, past + 1, chunk.n))
      end
      n, left = n - (past - kept), left - (past - kept)
    end
    left = left + chunk.n
    gap(last, chunk, -1)
    old[#old + 1], last = chunk, chunk
    rank = rank + 1
    chunk = log_at(key, rank)
  end
  gap(last, chunk, -1)
  start = start or last.before + last.n - left

  local new = {}
  for i = 1, #list do
    list[i] = log_number(list[i], start)
    start = start + list[i].n
    new[list[i].bytes] = true
  end
  for _, chunk in ipairs(old) do
    if new[chunk.bytes] then
      new[chunk.bytes] = false
    else
      call('ZREM', key, chunk.bytes)
    end
  end
  for _, chunk in ipairs(list) do
    if new[chunk.bytes] then
      log_add(key, log_time(chunk, chunk.n), chunk.bytes)
    end
  end
  last = list[#list] or prior
  if not last and not chunk then
    call('DEL', key)
    return
  end
  gap(last, chunk, 1)
  for node, size in pairs(changes) do
    if size ~= 0 then
      log_change(key, plan, node, function()
        return size
      end)
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

--- debit
plan_N.cost = math.min(plan_N.cost, END - 1 - plan_N.count)
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

--- credit
log_give(KEYS[I_N], plan_N, plan_N.cost)
log_expire(KEYS[I_N], plan_N) -- the key may have been empty, and so gone, in between
plan_N = log_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- corrupt plan_N.corrupt

--- report plan_N.count, plan_N.first_leaves, plan_N.last_leaves, plan_N.retry

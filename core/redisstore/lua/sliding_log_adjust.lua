-- sliding_log_adjust: a sliding log as a charge of adjust.lua. A chunk is a member as a table.

local log_voids, log_find, log_slice = log_functions()

-- Returns a chunk: the results of log_open, by name, and the member as bytes. Returns nil if the
-- member is absent or unreadable.
local function log_chunk(member)
  local before, n, newest, base, format, width = log_open(member or '')
  return before and { bytes = member, before = before, n = n, newest = newest, base = base, format = format, width = width }
end

-- Returns the index of the node whose first block contains the number before the given number.
local function log_block(number)
  return math.floor((number - 1) / BLOCK) + 1
end

local function log_at(key, rank)
  return rank >= 0 and log_chunk(redis.call('ZRANGE', key, rank, rank)[1])
end

local function log_add(key, chunk)
  redis.call('ZADD', key, string.format('%d', chunk.newest), chunk.bytes)
end

-- Returns a chunk with the events i to j of a chunk, the first of them with the given number.
local function log_part(chunk, i, j, number)
  return log_chunk(struct.pack('>I6', number) .. string.sub(log_slice(chunk.bytes, i, j), 7))
end

-- Removes the events that have left the window, so that they do not return when the newest event is
-- removed. Sets first and last of charge to chunks, stop to the number after the last event (0 if
-- there are no nodes), and voids to the count of void numbers after first. Returns false if the
-- state is unreadable.
local function log_trim(charge)
  local key = charge.key
  local top = redis.call('ZREVRANGE', key, '0', '0')[1]
  local last = log_chunk(redis.call('ZREVRANGEBYSCORE', key, string.format('%d', NODES), '-inf', 'LIMIT', '0', '1')[1])
  local cutoff = now - charge.period
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', cutoff))
  local first = log_at(key, 0)
  if not first then
    return false
  end
  local left = log_until(first.bytes, cutoff)
  if left > 0 then
    local rest = log_part(first, left + 1, first.n, first.before + left)
    redis.call('ZREM', key, first.bytes)
    log_add(key, rest)
    first, last = rest, last.bytes == first.bytes and rest or last
  end
  charge.first, charge.last = first, last
  charge.stop = #top == 12 and last.before + last.n or 0
  charge.voids = log_voids(key, first.before + first.n, charge.stop)
  return true
end

-- Adds change(past) to the sum of each node that covers the first block of the given node. past is
-- the first number after the blocks that the changed node covers.
local function log_change(charge, node, change)
  local lowest, first = 1, log_block(charge.first.before + charge.first.n)
  while node >= first do
    if node % (2 * lowest) ~= 0 then
      local score = string.format('%d', NODES + 2 * node)
      local member = redis.call('ZRANGEBYSCORE', charge.key, score, score)[1]
      local sum = change((node + lowest - 1) * BLOCK)
      if member then
        sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0)
        redis.call('ZREM', charge.key, member)
      end
      if sum > 0 then
        redis.call('ZADD', charge.key, score, struct.pack('>I6I6', node, sum))
      end
      node = node - lowest
    end
    lowest = 2 * lowest
  end
end

-- Removes the n newest events of the window. The remaining part of the last member then follows the
-- preceding member without a gap.
local function log_remove_newest(charge, n)
  local key, member, kept, rank = charge.key, nil, nil, nil
  if n < charge.count and log_trim(charge) then
    member, kept, rank = log_find(key, charge.first.bytes, charge.last.bytes, charge.count - n, charge.voids, charge.stop)
  end
  if not member then
    redis.call('DEL', key)
    return
  end
  local prior, last = log_at(key, rank - 1), log_chunk(member)
  last = log_part(last, 1, kept, last.before)
  if charge.stop > 0 then
    local node = 1
    if prior then
      last = log_part(last, 1, kept, prior.before + prior.n)
      node = log_block(last.before)
    end
    local voids = log_voids(key, node * BLOCK, charge.stop)
    log_change(charge, node, function(past)
      return log_voids(key, past + 1, charge.stop) - voids
    end)
    redis.call('ZREMRANGEBYSCORE', key, string.format('%d', NODES + 2 * node), '+inf')
  end
  redis.call('ZREMRANGEBYRANK', key, rank, redis.call('ZRANK', key, charge.last.bytes))
  log_add(key, last)
end

-- Appends a chunk to a list, or its events to the last chunk of the list if they fit.
local function log_append(list, chunk)
  local last, width = list[#list], chunk.width
  if not last or width == 0 or last.width ~= width or #last.bytes + #chunk.bytes - 14 > MEMBER
    or chunk.newest - last.base >= 256 ^ width then
    list[#list + 1] = chunk
    return
  end
  local member = last.bytes
  for i = 1, chunk.n do
    local _, _, time = log_open(chunk.bytes, i)
    member = member .. struct.pack(chunk.format, time - last.base)
  end
  list[#list] = log_chunk(member)
end

-- Removes n events that were recorded at the given time.
--
-- The members of the block that held the removed events are renumbered from the end of the
-- preceding member. If a later member would then end in the same block, it is renumbered, too. The
-- remaining gap follows the renumbered members. There are thus few gaps (at most one for every 16
-- events), however many events are undone. In the first block of the window, the members are
-- renumbered so that the last event keeps its number. The void numbers then come before the block,
-- where they do not count. The number of the first block therefore never decreases.
local function log_remove_at(charge, n, time)
  if not log_trim(charge) then
    return
  end
  local found = log_chunk(redis.call('ZRANGEBYSCORE', charge.key, string.format('%d', time), '+inf', 'LIMIT', '0', '1')[1])
  if not found or log_until(found.bytes, time - 1) == log_until(found.bytes, time) then
    return
  end
  local node, from = log_block(found.before + found.n), redis.call('ZRANK', charge.key, found.bytes)
  local rank = from
  local prior = log_at(charge.key, rank - 1)
  while prior and log_block(prior.before + prior.n) == node do
    rank = rank - 1
    prior = log_at(charge.key, rank - 1)
  end

  local changes = {} -- of the counts of void numbers, by block
  local function gap(chunk, next, sign)
    local size = chunk and next and next.before - chunk.before - chunk.n or 0
    if size > 0 then
      local at = log_block(chunk.before + chunk.n)
      changes[at] = (changes[at] or 0) + sign * size
    end
  end
  local old, list, last, chunk = {}, {}, prior, log_at(charge.key, rank)
  local start, left = prior and prior.before + prior.n, 0
  while chunk do
    local kept, past = 0, 0
    if n > 0 and rank >= from and chunk.base <= time then
      kept = log_until(chunk.bytes, time - 1)
      past = math.min((log_until(chunk.bytes, time)), kept + n)
    end
    if kept == past and log_block(chunk.before + chunk.n) ~= node
      and not (start and start + left + chunk.n <= log_block(start + left) * BLOCK) then
      break
    end
    if kept == past then
      log_append(list, chunk)
    else
      if kept > 0 then
        log_append(list, log_part(chunk, 1, kept, chunk.before))
      end
      if past < chunk.n then
        log_append(list, log_part(chunk, past + 1, chunk.n, chunk.before))
      end
      n, left = n - (past - kept), left - (past - kept)
    end
    left = left + chunk.n
    gap(last, chunk, -1)
    old[#old + 1], last = chunk, chunk
    rank = rank + 1
    chunk = log_at(charge.key, rank)
  end
  gap(last, chunk, -1)
  start = start or last.before + last.n - left

  local new = {}
  for i = 1, #list do
    list[i] = log_part(list[i], 1, list[i].n, start)
    start = start + list[i].n
    new[list[i].bytes] = true
  end
  for _, written in ipairs(old) do
    if new[written.bytes] then
      new[written.bytes] = false
    else
      redis.call('ZREM', charge.key, written.bytes)
    end
  end
  for _, written in ipairs(list) do
    if new[written.bytes] then
      log_add(charge.key, written)
    end
  end
  last = list[#list] or prior
  if not last and not chunk then
    redis.call('DEL', charge.key)
    return
  end
  gap(last, chunk, 1)
  for changed, size in pairs(changes) do
    if size ~= 0 then
      log_change(charge, changed, function()
        return size
      end)
    end
  end
end

function algorithms.sliding_log(key, at, op)
  local size, after, moved = #reply, at + 4, false
  sliding_log(key, at, op, function(_, _, _, stepped_back, corrupt)
    moved = stepped_back
    if op == 'debit' then
      outcome = outcome + corrupt
      return reply[size + 1] < MAX_COUNT and 'spend'
    end
    return op == 'credit' and moved and 'rewrite'
  end, math.min(ARGV[at], MAX_COUNT))
  if op == 'reset' then
    return after
  end
  local cost, period = ARGV[at] + 0, ARGV[at + 2] + 0
  local charge = { key = key, period = period, count = reply[size + 1] }
  if op == 'undo' then
    local time, age = ARGV[after] + 0, ARGV[after + 3] + 0
    after = after + 4
    -- If the clock has stepped back, the events cannot be told from other events.
    if charge.count > 0 and not moved and now - time >= age then
      log_remove_at(charge, cost, time)
    end
  elseif op == 'credit' and charge.count > 0 then
    log_remove_newest(charge, cost)
  end
  if op ~= 'debit' then -- the key may have been deleted and written again
    redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
  end
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
  sliding_log(key, at, 'peek', function() end, 1)
  return after
end

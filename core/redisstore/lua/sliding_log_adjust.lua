-- sliding_log_adjust: a sliding log as a charge of adjust.lua.

-- Returns the index of the node whose first block contains the number before the given number.
local function log_block(number)
  return math.floor((number - 1) / BLOCK) + 1
end

local function log_at(key, rank)
  return rank >= 0 and log_open(redis.call('ZRANGE', key, rank, rank)[1] or '')
end

-- Returns a copy of a chunk, with another number for the first event.
local function log_number(chunk, number)
  return log_open(struct.pack('>I6', number) .. string.sub(chunk.bytes, 7))
end

-- Returns a chunk with the events i to j of a chunk.
local function log_slice(chunk, i, j)
  if chunk.width == 0 then
    return log_open(log_header(0, chunk.before, chunk.base) .. struct.pack('>I6', j - i + 1))
  end
  return log_open(string.sub(chunk.bytes, 1, HEADER)
    .. string.sub(chunk.bytes, HEADER + 1 + (i - 1) * chunk.width, HEADER + j * chunk.width))
end

-- Removes the events that have left the window, so that they do not return when the newest event is
-- removed.
local function log_trim(charge)
  redis.call('ZREMRANGEBYSCORE', charge.key, '-inf', string.format('%d', charge.cutoff))
  local first, left = charge.first, charge.left
  if left > 0 then
    local rest = log_number(log_slice(first, left + 1, first.n), first.before + left)
    redis.call('ZREM', charge.key, first.bytes)
    log_add(charge.key, log_time(rest, rest.n), rest.bytes)
    charge.first, charge.left = rest, 0
    charge.last = charge.last == first and rest or charge.last
  end
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
  if not charge.first then
    return
  end
  if charge.newest > now then
    log_rebase(charge)
  else
    log_trim(charge)
  end
  local chunk, kept, rank
  if n < charge.count then
    chunk, kept, rank = log_find(charge, charge.count - n)
  end
  if not chunk then
    redis.call('DEL', charge.key)
    return
  end
  local last, prior = log_slice(chunk, 1, kept), log_at(charge.key, rank - 1)
  if charge.voided then
    local node = 1
    if prior then
      last = log_number(last, prior.before + prior.n)
      node = log_block(last.before)
    end
    local voids = log_voids(charge, node * BLOCK)
    log_change(charge, node, function(past)
      return log_voids(charge, past + 1) - voids
    end)
    redis.call('ZREMRANGEBYSCORE', charge.key, string.format('%d', NODES + 2 * node), '+inf')
  end
  local newest = redis.call('ZRANK', charge.key, charge.last.bytes)
  redis.call('ZREMRANGEBYRANK', charge.key, rank, newest)
  log_add(charge.key, log_time(last, kept), last.bytes)
end

-- Appends a chunk to a list, or its events to the last chunk of the list if they fit.
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

-- Removes n events that were recorded at the given time. Removes none if the clock has stepped
-- back, because these events then cannot be told from other events.
--
-- The members of the block that held the removed events are renumbered from the end of the
-- preceding member. If a later member would then end in the same block, it is renumbered, too. The
-- remaining gap follows the renumbered members. There are thus few gaps (at most one for every 16
-- events), however many events are undone. In the first block of the window, the members are
-- renumbered so that the last event keeps its number. The void numbers then come before the block,
-- where they do not count. The number of the first block therefore never decreases.
local function log_remove_at(charge, n, time)
  if not charge.first or charge.newest > now then
    return
  end
  log_trim(charge)
  local found = log_open(redis.call('ZRANGEBYSCORE', charge.key, string.format('%d', time), '+inf', 'LIMIT', 0, 1)[1] or '')
  if not found or log_until(found, time - 1) == log_until(found, time) then
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
    chunk = log_at(charge.key, rank)
  end
  gap(last, chunk, -1)
  start = start or last.before + last.n - left

  local new = {}
  for i = 1, #list do
    list[i] = log_number(list[i], start)
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
      log_add(charge.key, log_time(written, written.n), written.bytes)
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
  local charge, receipt, after = sliding_log_read(key, at), at + 4, at + 4
  if op == 'debit' then
    outcome = outcome + charge.corrupt
    charge.cost = math.min(charge.cost, MAX_COUNT - charge.count)
    if charge.cost > 0 then
      sliding_log_spend(charge)
    end
  elseif op == 'credit' then
    log_remove_newest(charge, charge.cost)
    log_expire(charge) -- the key may have been deleted and written again
  elseif op == 'undo' then
    local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
    after = receipt + 4
    local stepped_back = now - time < age
    if not stepped_back then
      log_remove_at(charge, charge.cost, time)
    end
    log_expire(charge)
  end
  if op ~= 'reset' then
    charge = sliding_log_read(key, at, 1)
  end
  sliding_log_report(charge)
  return after
end

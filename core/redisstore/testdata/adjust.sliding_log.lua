local now, slack
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- added to all TTLs, because they are rounded down to milliseconds
else
  now = ARGV[1] + 0
  slack = 86400000 -- the server does not expire keys by the clock of a test
end
local function unreadable(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return 1
end
local readonly -- an error reply, instead of the outcomes: see message
local function message(raised)
  local text = type(raised) == 'table' and raised.err or raised
  if string.find(text, 'READONLY', 1, true) then
    readonly = { err = text }
  end
  return text
end
local algorithms = {}
local outcome -- of the current decision, as in the reply
local reply = { now, nil, nil, nil, nil, nil, nil, nil } -- the nils reserve memory
local HEADER, MEMBER = 14, 64 -- bytes; Redis does not keep longer members in a compact block
local SMALL = 8 -- a cost up to this is recorded event by event, a larger cost as a bulk
local BLOCK = 64 -- numbers
local MAX_COUNT = 281474976710655 -- 2^48 - 1: numbers do not exceed it
local NODES = 9007199254740992 -- 2^53, above every time
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
local function log_time(chunk, i)
  if chunk.width == 0 then
    return chunk.base
  end
  return chunk.base + struct.unpack('>I' .. chunk.width, chunk.bytes, HEADER + 1 + (i - 1) * chunk.width)
end
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
local function log_block(number)
  return math.floor((number - 1) / BLOCK) + 1
end
local function log_at(key, rank)
  return rank >= 0 and log_open(redis.call('ZRANGE', key, rank, rank)[1] or '')
end
local function log_number(chunk, number)
  return log_open(struct.pack('>I6', number) .. string.sub(chunk.bytes, 7))
end
local function log_slice(chunk, i, j)
  if chunk.width == 0 then
    return log_open(log_header(0, chunk.before, chunk.base) .. struct.pack('>I6', j - i + 1))
  end
  return log_open(string.sub(chunk.bytes, 1, HEADER)
    .. string.sub(chunk.bytes, HEADER + 1 + (i - 1) * chunk.width, HEADER + j * chunk.width))
end
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
local function decision(first, charges, at)
  for i = first, first + charges - 1 do
    local op = ARGV[at + 1]
    at = algorithms[ARGV[at]](KEYS[i], at + 2, op)
    if op == 'reset' then
      redis.call('DEL', KEYS[i])
    end
  end
end
local key, at = 1, 2
while ARGV[at] do
  local charges, place = ARGV[at] + 0, #reply + 1
  reply[place], outcome = 0, 1
  local done, result = pcall(decision, key, charges, at + 2)
  if not done then
    for i = #reply, place + 1, -1 do
      reply[i] = nil
    end
    outcome = message(result)
  end
  reply[place] = outcome
  key, at = key + charges, at + 2 + ARGV[at + 1]
end
return readonly or reply

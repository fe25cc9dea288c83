local ARGV, redis = ARGV, redis -- a local variable takes less time than a global one
local now, slack -- slack is added to all TTLs (ms)
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- TTLs are rounded down to milliseconds
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
local algorithms = {}
local key, last = 0, 0 -- indexes in KEYS: of the charge that was read last, and the last of the decision
local denied -- whether the decision is denied
local replaced = 0 -- the number of unreadable states that all decisions have replaced
local reply = { now, 0, nil, nil, nil, nil, nil, nil } -- the nils reserve memory
local function places_renew_now(key)
  local time = string.format('%d', now)
  local later = redis.call('ZRANGEBYSCORE', key, '(' .. time, '+inf')
  redis.call('ZREMRANGEBYRANK', key, -#later, '-1')
  for _, number in ipairs(later) do
    redis.call('ZADD', key, time, number)
  end
end
local function places_expire(key, hold, queues)
  redis.call('PEXPIRE', key, string.format('%d', (math.max(hold, queues and 2000000 or 0) + 999) / 1000 + slack))
end
local function caller(at)
  local cost = ARGV[at + 2] + 0
  return { ARGV[at] + 0, math.max(0, now - ARGV[at + 3]), ARGV[at + 1] + 0, math.abs(cost), cost < 0 }
end
local function queues_read(key, first, own)
  if not first[1] or first[2] - '-4294967296' > 0 then
    return nil, 0
  end
  local queues, ends = { stale = {} }, 0
  local all = redis.call('ZRANGEBYSCORE', key, '-inf', '-4294967296', 'WITHSCORES')
  queues.members = #all / 2
  for i = 1, #all, 2 do
    local queue, cost, limit, last = string.match(all[i], '^(%d+):(%d+):(%-?%d+):(%d+)$')
    if queue and last - now > 0 and last - now <= 2000000 then
      local q = { queue + 0, all[i + 1] + 9007199254740992, cost + 0, limit + 0, all[i] }
      queues[#queues + 1] = q
      if own and q[1] == own[1] and own[5] then
        own[2] = math.min(own[2], q[2]) -- the time until an ask arrives differs from one to the next
      end
      if not own or q[1] ~= own[1] and (q[2] < own[2] or q[2] == own[2] and q[1] < own[1]) then
        q[6], ends = true, math.max(ends, last - now)
      end
    elseif #queues.stale < 64 then -- the others are removed later
      queues.stale[#queues.stale + 1] = all[i]
    end
  end
  return queues, ends
end
local function queue_needs(q, taken)
  return math.max(taken, math.min(taken + q[3], math.abs(q[4])))
end
local function queues_shown(queues, taken, limit)
  local needed = taken
  for _, q in ipairs(queues) do
    needed = q[6] and queue_needs(q, needed) or needed
  end
  return math.min(needed, math.max(taken, limit))
end
local function queues_publish(key, queue, message)
  redis.pcall('PUBLISH', string.match(key, '^[^{]*') .. string.format('wake:%d', math.floor(queue / 4194304)),
    message .. string.format('%d', queue))
end
local function queues_wake(key, queues, taken)
  for _, q in ipairs(queues or {}) do
    if taken + q[3] <= q[4] then
      redis.call('ZREM', key, q[5])
      redis.call('ZADD', key, string.format('%d', q[2] - 9007199254740992),
        (string.gsub(q[5], '^%d+:%d+:', '%0-', 1)))
      queues_publish(key, q[1], '')
    end
    taken = queue_needs(q, taken)
  end
end
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
local function queues_wait(key, queues, own, cost, fits, spent, limit, taken)
  local left = queues_leave(key, queues, own[1])
  queues = queues or { stale = {} }
  if #queues.stale > 0 then
    redis.call('ZREM', key, unpack(queues.stale))
    left = true
  end
  local came, waits = own[2], not fits
  if spent then
    came, cost, waits = math.min(came + own[3], now), own[4], own[3] >= 0
  end
  local i = 1
  while queues[i] and (queues[i][2] < came or queues[i][2] == came and queues[i][1] < own[1]) do
    i = i + 1
  end
  if waits and cost <= limit and i <= 64 then
    local member = string.format('%016d:%d:%d:%d', own[1], cost, limit, now + 2000000)
    local added = redis.pcall('ZADD', key, string.format('%d', came - 9007199254740992), member)
    if type(added) == 'number' then
      if #queues >= 64 then
        redis.call('ZREMRANGEBYRANK', key, 64, #queues)
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
local function bucket(key, at, op, decide)
  local cost, full, den, max_delay = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
  local cost_fraction, full_fraction, size = 0, 0, 4
  if den > 1 then
    cost_fraction, full_fraction, size = ARGV[at + 4] + 0, ARGV[at + 5] + 0, 6
  end
  local most, most_fraction = full, full_fraction
  if full < 0 then
    full, most, most_fraction, size = -1 - full, ARGV[at + size] + 0, ARGV[at + size + 1] + 0, size + 2
  end
  local used, fraction, moved, corrupt = 0, 0, false, 0
  local value = redis.pcall('GET', key)
  if value then
    local us, part, since = tonumber(value), 0, 0
    if not us and type(value) == 'string' and #value < 60 then
      us, part, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      us, part, since = tonumber(us), tonumber(part), tonumber(since) or 0
    end
    if not us or us % 1 ~= 0 or us > 9007199254740991 or part > 9007199254740991
      or since ~= 0 and (since > us or us - since > 3162240000000000) then
      corrupt = unreadable(value)
    else
      if part >= den then -- written under another rate
        us, part = us + 1, 0
      end
      if since > now then -- the clock stepped back
        used, fraction, moved = us - since, part, true
      elseif us >= now then
        used, fraction = us - now, part
        if since == 0 and (used > full or used == full and fraction > full_fraction) then
          used, fraction, moved = full, full_fraction, true
        end
      end
    end
  end
  local place = #reply + 1
  reply[place] = used
  if den > 1 then
    reply[place + 1] = fraction
  end
  local after, after_fraction = used + cost, fraction + cost_fraction
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  local fits = (after < most or after == most and after_fraction <= most_fraction)
    and (max_delay < 0 or used < max_delay or used == max_delay and fraction == 0)
  local action, other, other_fraction = decide(at + size, op, fits, moved, corrupt, used, fraction, after, most, most_fraction)
  if not action then
    return
  end
  if action == 'spend' then
    used, fraction = after, after_fraction
  elseif other then
    used, fraction = other, other_fraction
  end
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = string.format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = string.format('%d %d', now + used, fraction)
  else
    value = string.format('%d', now + used)
  end
  redis.call('PSETEX', key, string.format('%d', (used + 1000) / 1000 + slack), value)
end
local function bucket_divide(rest, rest_fraction, us, fraction, den, most)
  if most < 1 or rest < us or rest == us and rest_fraction < fraction then
    return 0, rest, rest_fraction
  end
  local n, twice, twice_fraction = 0, us + us, fraction + fraction
  if most > 1 then
    if twice_fraction >= den then
      twice, twice_fraction = twice + 1, twice_fraction - den
    end
    n, rest, rest_fraction = bucket_divide(rest, rest_fraction, twice, twice_fraction, den, math.floor(most / 2))
    n = n + n
  end
  if n < most and (rest > us or rest == us and rest_fraction >= fraction) then
    n, rest, rest_fraction = n + 1, rest - us, rest_fraction - fraction
    if rest_fraction < 0 then
      rest, rest_fraction = rest - 1, rest_fraction + den
    end
  end
  return n, rest, rest_fraction
end
function algorithms.bucket(key, at, op, decide, most)
  bucket(key, at, op, function(next, _, _, moved, corrupt, used, fraction, _, limit, limit_fraction)
    local unit, den, unit_fraction = ARGV[at] + 0, ARGV[at + 2] + 0, 0
    if den > 1 then
      unit_fraction = ARGV[at + 4] + 0
    end
    local free, free_fraction = limit - used, limit_fraction - fraction
    if free_fraction < 0 then
      free, free_fraction = free - 1, free_fraction + den
    end
    local room, rest, rest_fraction = bucket_divide(free, free_fraction, unit, unit_fraction, den, most)
    local cost = decide(next, op, room, corrupt)
    if cost == 0 then
      return moved and 'rewrite'
    elseif cost < room then
      _, rest, rest_fraction = bucket_divide(free, free_fraction, unit, unit_fraction, den, cost)
    end
    used, fraction = limit - rest, limit_fraction - rest_fraction
    if fraction < 0 then
      used, fraction = used - 1, fraction + den
    end
    return 'rewrite', used, fraction
  end)
end
local function fixed_window_read(key, window)
  local value = redis.pcall('GET', key)
  if not value then
    return 0, false, 0
  end
  local start, count
  if type(value) == 'string' and (#value == 12 or #value == 14) then
    start, count = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
  end
  if not start or start > 9007199254740991 or count > 9007199254740991 then
    return 0, false, unreadable(value)
  end
  if start > now then -- the clock stepped back
    return count, count > 0, 0
  end
  return start >= window and count or 0, false, 0
end
local function fixed_window_write(key, window, left, count)
  local value = struct.pack(count < 1099511627776 and '>I7I5' or '>I7I7', window, count)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), value)
end
function algorithms.fixed_window(key, at, op, decide)
  local events, period = ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, moved, corrupt = fixed_window_read(key, window)
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  local cost = decide(at + 3, op, events - count, corrupt)
  if cost > 0 or moved then
    fixed_window_write(key, window, left, count + cost)
  end
end
local MODULUS = 128
local function sliding_window_integer(text)
  local n = tonumber(text)
  return n and n % 1 == 0 and n >= 0 and n <= 9007199254740991 and n
end
local function sliding_window_scan(charge)
  local fields = redis.call('HGETALL', charge.key)
  local counts, all, gone, total = {}, {}, {}, 0
  for i = 1, #fields, 2 do
    local name = fields[i]
    if name ~= 'o' and name ~= 'l' and name ~= 't' then
      local remainder, n = sliding_window_integer(name), sliding_window_integer(fields[i + 1])
      if not remainder or not n or remainder >= MODULUS then
        return nil
      end
      counts[remainder] = n
    end
  end
  for number = charge.newest - MODULUS + 1, charge.newest do
    local n = counts[number % MODULUS]
    if n and (number + 1) * charge.length - 1 > charge.cutoff then
      all[#all + 1] = { number = number, n = n }
      total = total + n
    elseif n then
      gone[#gone + 1] = number
    end
  end
  charge.all, charge.gone, charge.count = all, gone, total
  return #all > 0 and all[#all].number == charge.newest and all
end
local function sliding_window_leaves(charge, number)
  return math.min((number + 1) * charge.length - 1, charge.stamp) - now + charge.period
end
local function sliding_window_load(charge)
  local meta = redis.pcall('HMGET', charge.key, 'o', 'l', 't', string.format('%d', charge.current % MODULUS))
  if meta.err then
    unreadable(meta)
    return false
  end
  if not meta[1] then
    return redis.call('EXISTS', charge.key) == 0
  end
  local length, oldest = charge.length, sliding_window_integer(meta[1])
  local newest, total = sliding_window_integer(meta[2]), sliding_window_integer(meta[3])
  if not (oldest and newest and total and oldest <= newest and newest * length <= 9007199254740991) then
    return false
  end
  charge.newest, charge.known = newest, true
  charge.cutoff = math.max(now, newest * length) - charge.period
  if (newest + 1) * length - 1 <= charge.cutoff then
    return true -- all of it has left
  end
  charge.moved = newest > charge.current
  local cost, events = charge.cost, charge.events
  local excess = total + cost - events
  if not charge.moved and (oldest + 1) * length - 1 > charge.cutoff and (excess <= 1 or cost > events) then
    charge.count, charge.oldest = total, oldest
    charge.here = newest == charge.current and sliding_window_integer(meta[4]) or 0
    charge.first, charge.last = sliding_window_leaves(charge, oldest), sliding_window_leaves(charge, newest)
    charge.retry = excess > 0 and charge.first or 0
    return total > 0
  end
  local all = sliding_window_scan(charge)
  if not all or charge.count == 0 then
    return false
  end
  charge.first, charge.last = sliding_window_leaves(charge, all[1].number), sliding_window_leaves(charge, newest)
  excess = charge.count + cost - events
  if excess > 0 and cost <= events then
    for _, sub in ipairs(all) do
      excess = excess - sub.n
      if excess <= 0 then
        charge.retry = sliding_window_leaves(charge, sub.number)
        break
      end
    end
  end
  return true
end
local function sliding_window_read(key, at, cost)
  local length = ARGV[at + 3] + 0
  local current = (now - now % length) / length
  local charge = {
    key = key, cost = cost or ARGV[at] + 0, events = ARGV[at + 1] + 0, period = ARGV[at + 2] + 0, length = length,
    current = current, stamp = (current + 1) * length - 1, -- the last microsecond of the current sub-window
    count = 0, first = 0, last = 0, retry = 0, moved = false, corrupt = 0,
    known = false, newest = nil, cutoff = nil, -- set from the state
    oldest = nil, here = nil, -- set if not all sub-windows were read
    all = nil, gone = nil, -- set if all sub-windows were read
  }
  if not sliding_window_load(charge) then
    charge.corrupt, charge.known, charge.moved = 1, true, false
    charge.count, charge.retry, charge.all, charge.oldest = 0, 0, nil, nil
  end
  return charge
end
local function sliding_window_write(charge, cost)
  local numbers, args, total = {}, {}, 0 -- numbers are ascending, as charge.all is
  local function put(number, n)
    if n > 0 and numbers[#numbers] == number then
      args[#args] = args[#args] + n
    elseif n > 0 then
      numbers[#numbers + 1] = number
      args[#args + 1], args[#args + 2] = number % MODULUS, n
    end
    total = total + n
  end
  for _, sub in ipairs(charge.all or {}) do
    put(math.min(sub.number, charge.current), sub.n)
  end
  put(charge.current, cost)
  if charge.known then
    redis.call('DEL', charge.key)
  end
  if total == 0 then
    return
  end
  for i = 1, #args do
    args[i] = string.format('%d', args[i])
  end
  redis.call('HSET', charge.key, 'o', string.format('%d', numbers[1]),
    'l', string.format('%d', numbers[#numbers]), 't', string.format('%d', total), unpack(args))
end
local function sliding_window_expire(charge)
  redis.call('PEXPIRE', charge.key, string.format('%d', (charge.period + charge.length) / 1000 + 1 + slack))
end
local function sliding_window_spend(charge)
  local key, current, count = charge.key, charge.current, charge.count + charge.cost
  if charge.oldest then
    redis.call('HSET', key, 'l', string.format('%d', current), 't', string.format('%d', count),
      string.format('%d', current % MODULUS), string.format('%d', charge.here + charge.cost))
  elseif charge.moved or not charge.all then
    sliding_window_write(charge, charge.cost)
  else
    local all = charge.all
    local here = all[#all].number == current and all[#all].n or 0
    redis.call('HSET', key, 'o', string.format('%d', all[1].number), 'l', string.format('%d', current), 't', string.format('%d', count),
      string.format('%d', current % MODULUS), string.format('%d', here + charge.cost))
    for _, number in ipairs(charge.gone) do
      if number % MODULUS ~= current % MODULUS then
        redis.call('HDEL', key, string.format('%d', number % MODULUS))
      end
    end
  end
  sliding_window_expire(charge)
end
local function sliding_window_report(charge)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = charge.stamp - now, charge.count, charge.first
  reply[size + 4], reply[size + 5] = charge.last, charge.retry
end
function algorithms.sliding_window(key, at, op, decide)
  local charge, place = sliding_window_read(key, at), #reply
  sliding_window_report(charge)
  local cost, refused = decide(at + 4, op, charge.events - charge.count, charge.corrupt)
  if refused then
    reply[place + 5] = sliding_window_read(key, at, refused).retry
  end
  if cost > 0 then
    charge.cost = cost
    sliding_window_spend(charge)
  elseif charge.moved then
    sliding_window_write(charge, 0)
    sliding_window_expire(charge)
  end
end
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
local function log_append(width, number, time, n, member, _, through, _, base, size)
  local fits = through and #member + size <= 64 and (n == 1 or size > width + 0)
    and through + n <= 281474976710655 and time - base < 256 ^ width or false
  if not fits then
    through, base, size = 0, time, n == 1 and width + 0 or width + 6
    member = struct.pack('>I6BI7', number == 0 and 0 or (number - 1) % 281474976710655 + 1, size, time)
  end
  return member .. struct.pack('>I' .. width .. (size > width + 0 and 'I6' or ''), time - base, through + n), fits
end
local function log_functions()
  local function find(key, width, found, cutoff, left, n)
    local low, first = redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff)), log_open(found, width) + left
    local high, index = low + n - 1, left + n
    while low < high do
      local middle = math.ceil((low + high) / 2)
      local rank = string.format('%d', middle)
      local member = redis.call('ZRANGE', key, rank, rank)[1] or ''
      local before = ((log_open(member, width) or 1 / 0) - first) % 281474976710655
      if before < n then -- false for NaN, if there is no member
        low, found, index = middle, member, n - before
      else
        high = middle - 1
      end
    end
    return select(3, log_seek(found, width, -1, index))
  end
  local function cut(key, width, from, to, members, i, j, number)
    local list = {}
    for _, member in ipairs(members) do
      local last, before, _, count, _, _, _, entries = list[#list] or '', 0, log_open(member, width)
      if j <= 0 and count and #last + #member - 14 > 64 then -- else the events fit into last
        list[#list + 1] = struct.pack('>I6', (number - 1) % 281474976710655 + 1) .. string.sub(member, 7)
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
  local function step_back(key, width, cutoff, stop)
    trim(key, width, cutoff, math.huge)
    local rank = string.format('%d', redis.call('ZCOUNT', key, '-inf', string.format('%d', now - 1)))
    local member = redis.call('ZRANGE', key, rank, rank)[1]
    local number, kept = log_seek(member or '', width, now - 1, 0)
    local next = cut(key, width, rank, '-1', { member }, kept or 0, math.huge, number or stop)
    return redis.call('ZREVRANGE', key, '0', '0')[1], next, (stop - next - 1) % 281474976710655 + 1
  end
  return find, cut, trim, step_back
end
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
    cutoff = math.max(latest or 0, now) - period
    corrupt, stale = latest ~= newest[2] + 0 and 1 or 0, latest and latest <= cutoff
    last = corrupt == 0 and not stale and newest[1] or nil
  end
  if last then
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
      count = (stop - begin - left - 1) % 281474976710655 + 1
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
  local action, taken = decide(at + 4, op, count + cost <= events, moved, corrupt)
  if not action then
    return
  end
  cost = action == 'spend' and math.min(taken or cost, 281474976710655 - count) or 0
  local rest, time = last, nil -- the last member without an entry at now
  if corrupt > 0 then
    redis.call('DEL', key)
  elseif moved then
    local _, _, _, step_back = log_functions()
    last, stop, count = step_back(key, width, cutoff, stop)
    _, n, _, base, size = log_open(last or '', width)
    rest, cost, stale = last, math.min(cost + count, 281474976710655), nil
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
function algorithms.sliding_log(key, at, op, decide)
  local place = #reply
  sliding_log(key, at, op, function(next, _, _, moved, corrupt)
    local cost, refused = decide(next, op, ARGV[at + 1] - reply[place + 1], corrupt)
    if refused then
      local size = #reply
      sliding_log(key, at, op, function() end, refused)
      reply[place + 4] = reply[size + 4]
      reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
    end
    if cost > 0 then
      return 'spend', cost
    end
    return moved and 'rewrite'
  end)
end
local function in_flight_read(key, at, own)
  local events, hold, place = ARGV[at] + 0, ARGV[at + 1] + 0, #reply
  local cutoff = now - hold
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
  if first.err then
    return 0, false, false, unreadable(first)
  elseif not first[1] then
    return 0, false, false, 0
  end
  local queues, ends = queues_read(key, first, own)
  if queues then
    first = redis.call('ZRANGE', key, queues.members, queues.members + 1, 'WITHSCORES')
    ends = math.min(ends, hold)
  end
  local count, oldest, latest, lapsed = 0, cutoff, cutoff, false
  if first[1] then
    count, oldest, latest = 1, first[2] + 0, first[2] + 0
    lapsed = oldest <= cutoff
    if first[3] then -- a key with one place, as most have, takes one command
      latest = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
    end
    if latest <= cutoff then
      count, oldest, latest = 0, cutoff, cutoff
    elseif first[3] then
      local after = string.format('(%d', cutoff)
      count = redis.call('ZCOUNT', key, after, '+inf')
      if lapsed then
        oldest = redis.call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2] + 0
      end
    end
  end
  if count > 1000 or oldest % 1 ~= 0 or latest % 1 ~= 0 then -- infinity % 1 is NaN
    return 0, false, false, 1
  end
  local shown, moved, retry = queues and queues_shown(queues, count, events) or count, latest > now, oldest
  if count > events then
    retry = redis.call('ZREVRANGE', key, events - 1, events - 1, 'WITHSCORES')[2] + 0
  end
  reply[place + 1], reply[place + 2] = shown, math.max(math.min(latest, now) - cutoff, ends)
  if shown >= events then
    reply[place + 3] = math.max(math.min(retry, now) - cutoff, ends)
  end
  return count, lapsed, moved, 0, queues
end
local function in_flight_correct(key, count, lapsed, moved, queues)
  if lapsed then
    redis.call('ZREMRANGEBYRANK', key, queues and queues.members or '0', -count - 1)
  end
  if moved then
    places_renew_now(key)
  end
end
local function in_flight_expire(key, at, queues)
  places_expire(key, ARGV[at + 1], queues)
end
local function quota_read(key, at)
  local start, stop, longest = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 5] + 0
  if now >= stop then
    start, stop = stop, ARGV[at + 4] + 0
  end
  local length = stop - start
  if length == 0 then
    start, length = now, longest
  end
  local left = length - (now - start) % length
  local value = redis.pcall('GET', key)
  if not value then
    return left, length, 0, false, 0
  end
  local own, count
  if type(value) == 'string' and #value == 20 then
    stop, own, count = struct.unpack('>I7I7I6', value)
  end
  if not own or stop > 9007199254740991 or own < 1 or own > longest then
    return left, length, 0, false, unreadable(value)
  end
  if stop <= now then
    return left, length, 0, false, 0
  elseif stop - now > longest then -- the clock stepped back
    return left, length, count, count > 0, 0
  end
  return stop - now, own, count, false, 0
end
local function quota_write(key, left, length, count)
  local value = struct.pack('>I7I7I6', now + left, length, count)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), value)
end
function algorithms.quota(key, at, op, decide)
  local left, length, count, moved, corrupt = quota_read(key, at)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = count, left, length
  local cost = decide(at + 6, op, ARGV[at + 1] - count, corrupt)
  if cost > 0 or moved then
    quota_write(key, left, length, count + cost)
  end
end
local function pause_read(key)
  local value = redis.pcall('GET', key)
  if not value then
    return 0, false, 0
  end
  local stop, since
  if type(value) == 'string' and #value == 14 then
    stop, since = struct.unpack('>I7I7', value)
  end
  if not stop or stop > 9007199254740991 or since >= stop or stop - since > 31622400000000 then
    return 0, false, unreadable(value)
  elseif since > now then
    return stop - since, true, 0
  end
  return math.max(0, stop - now), false, 0
end
local function pause_write(key, left)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), struct.pack('>I7I7', now + left, now))
end
function algorithms.pause(key, at, op, decide)
  local left, moved = pause_read(key)
  reply[#reply + 1] = left
  decide(at + 1, op, left == 0 and 9007199254740991 or 0, 0)
  if moved then
    pause_write(key, left)
  end
end
local function by_cost_read(key, at, cost, own)
  local events, cutoff, place = ARGV[at + 1] + 0, now - ARGV[at + 2], #reply
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = 0, 0, 0, 0
  local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES') -- the total, and the oldest event
  if first.err then
    return 0, nil, false, unreadable(first)
  elseif not first[1] then
    return 0, nil, false, 0
  end
  local queues, ends = queues_read(key, first, own)
  local total, count, latest, lapsed, rank = 0, 0, cutoff, nil, queues and queues.members or 0
  if queues then
    first, ends = redis.call('ZRANGE', key, rank, rank + 1, 'WITHSCORES'), math.min(ends, now - cutoff)
  end
  if first[1] and first[1] ~= 'total' then
    return 0, nil, false, 1
  elseif first[1] then
    total, count = 0 - first[2], redis.call('ZCARD', key) - 1 - rank
    latest = redis.call('ZREVRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
    if first[4] and first[4] + 0 <= cutoff then
      lapsed = redis.call('ZRANGE', key, rank + 1, redis.call('ZCOUNT', key, '-inf', string.format('%d', cutoff)) - 1)
      for _, number in ipairs(lapsed) do
        total = total - (tonumber(number) or 0) % 1048576
      end
      count = count - #lapsed
    end
    if count == 0 and total == 0 and lapsed then
      latest = cutoff
    elseif count < 1 or count > 1000 or total < count or total > count * 1048575 or total % 1 ~= 0
      or latest % 1 ~= 0 then
      return 0, nil, false, 1
    end
  end
  local shown = queues and queues_shown(queues, total, events) or total
  local excess = shown + cost - events
  reply[place + 1], reply[place + 2] = shown, math.max(math.min(latest, now) - cutoff, ends)
  if count == 1000 - 1 then
    reply[place + 4] = 2
  elseif count == 1000 then
    reply[place + 1], excess = math.max(shown, events), math.max(excess, 1)
  end
  if excess > 0 and cost <= events then
    reply[place + 3] = ends
  end
  local offset = 0
  while excess > 0 and cost <= events and offset < count do
    local after = string.format('(%d', cutoff)
    local some = redis.call('ZRANGEBYSCORE', key, after, '+inf', 'WITHSCORES', 'LIMIT', offset, 16)
    for i = 1, #some, 2 do
      excess = excess - (tonumber(some[i]) or 0) % 1048576
      reply[place + 3] = math.max(math.min(some[i + 1], now) - cutoff, ends)
      if excess <= 0 then
        break
      end
    end
    offset = offset + 16
  end
  return total, lapsed, latest > now, 0, queues
end
local function by_cost_taken(key, queues, total)
  if queues and redis.call('ZCARD', key) > 1000 and redis.call('ZCOUNT', key, '1', '+inf') >= 1000 then
    return 281474976710655
  end
  return total
end
local function by_cost_correct(key, total, lapsed, moved, queues)
  if lapsed then
    local rank = queues and queues.members or 0
    redis.call('ZREMRANGEBYRANK', key, rank + 1, rank + #lapsed)
    redis.call('ZADD', key, string.format('%d', -total), 'total')
  end
  if moved then
    places_renew_now(key)
  end
end
local function by_cost_expire(key, at, queues)
  places_expire(key, ARGV[at + 2], queues)
end
local function by_cost_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
  if corrupt > 0 then
    redis.call('UNLINK', key)
  end
  by_cost_correct(key, total, lapsed, moved, queues)
  local number = string.format('%d', (ARGV[2] + last) * 1048576 + cost)
  if redis.call('ZADD', key, 'NX', string.format('%d', now), number) == 0 then
    error('the number of the places is taken', 0)
  end
  redis.call('ZADD', key, string.format('%d', -total - cost), 'total')
  by_cost_expire(key, at, queues)
end
function algorithms.in_flight_by_cost(key, at, op, decide)
  local total, lapsed, moved, corrupt, queues = by_cost_read(key, at, 1)
  local place = #reply - 4
  local cost, refused = decide(at + 3, op, ARGV[at + 1] - reply[place + 1], corrupt)
  if refused then
    local size = #reply
    by_cost_read(key, at, refused)
    reply[place + 3] = reply[size + 3]
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
  end
  if cost > 0 then
    by_cost_spend(key, at, cost, total, lapsed, moved, corrupt, queues)
  elseif moved then
    by_cost_correct(key, total, lapsed, moved, queues)
    by_cost_expire(key, at, queues)
  end
end
local most -- the largest cost that the charges read so far admit
local function decide(at, op, room, corrupt)
  if op == 'spend' then
    most = math.max(0, math.min(most, room))
  end
  if key < last then
    key = key + 1
    algorithms[ARGV[at]](KEYS[key], at + 2, ARGV[at + 1], decide, most)
  end
  denied = most == 0
  if denied then
    return 0
  elseif most > room then
    return 0, most
  end
  replaced = replaced + corrupt
  return most
end
local function decision(at)
  key, most = key + 1, ARGV[at] + 0
  algorithms[ARGV[at + 1]](KEYS[key], at + 3, ARGV[at + 2], decide, most)
end
local at = 3 -- index in ARGV
while ARGV[at] do
  local count, charges, after = ARGV[at] + 0, ARGV[at + 1] + 0, at + 3 + ARGV[at + 2]
  if count > 1 then
    for i = at + 3, after - 1 do
      ARGV[i] = tonumber(ARGV[i]) or ARGV[i] -- once for all of the decisions
    end
  end
  for _ = 1, count do
    local place = #reply + 1
    last, denied = last + charges, false
    local done, result = pcall(decision, at + 3)
    if not done then
      for i = #reply, place + 1, -1 do
        reply[i] = nil
      end
      reply[place] = type(result) == 'table' and result.err or result -- before Redis 7, a text
      if string.find(reply[place], 'READONLY', 1, true) then
        return { err = reply[place] }
      end
      key = last
    elseif denied then
      reply[place] = -1 - reply[place]
    end
  end
  at = after
end
reply[2] = replaced
return reply

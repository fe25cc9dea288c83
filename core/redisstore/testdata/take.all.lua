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
local algorithms = {}
local outcome -- of the current decision, as in the reply
local reply = { now, nil, nil, nil, nil, nil, nil, nil } -- the nils reserve memory
local function bucket_arguments(at)
  local cost, full, fractions, max_delay = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2], tonumber(ARGV[at + 3])
  if fractions == '' then
    return cost, 0, full, 0, 1, max_delay
  end
  local cost_fraction, full_fraction, den = string.match(fractions, '(%d+) (%d+) (%d+)')
  return cost, cost_fraction + 0, full, full_fraction + 0, den + 0, max_delay
end
local function bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
  local HORIZON = 3162240000000000 -- us, 100 years: the longest span
  local used, fraction, moved, corrupt = 0, 0, false, 0
  local value = redis.pcall('GET', key)
  if value then
    local us, part, since = tonumber(value), 0, 0
    if not us and type(value) == 'string' and #value < 60 then
      us, part, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      us, part, since = tonumber(us), tonumber(part), tonumber(since) or 0
    end
    if not us or us % 1 ~= 0 or us > MAX_INTEGER or part > MAX_INTEGER
      or since ~= 0 and (since > us or us - since > HORIZON) then
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
  local after, after_fraction = used + cost, fraction + cost_fraction
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  local fits = after < full or after == full and after_fraction <= full_fraction
  if max_delay then
    fits = fits and (used < max_delay or used == max_delay and fraction == 0)
  end
  return used, fraction, after, after_fraction, fits, moved, corrupt
end
local function bucket_write(key, used, fraction, full, full_fraction)
  local value
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = string.format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = string.format('%d %d', now + used, fraction)
  else
    value = string.format('%d', now + used)
  end
  redis.call('PSETEX', key, string.format('%d', (used + 1000) / 1000 + slack), value)
end
function algorithms.bucket(key, at, op, decide)
  local cost, cost_fraction, full, full_fraction, den, max_delay = bucket_arguments(at)
  local used, fraction, after, after_fraction, fits, moved, corrupt =
    bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local size = #reply
  reply[size + 1], reply[size + 2] = used, fraction
  local action = decide(at + 4, op, fits, moved, corrupt)
  if action == 'spend' then
    bucket_write(key, after, after_fraction, full, full_fraction)
  elseif action == 'rewrite' then
    bucket_write(key, used, fraction, full, full_fraction)
  end
end
local function fixed_window_read(key, window)
  local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
  local value = redis.pcall('GET', key)
  if not value then
    return 0, false, 0
  end
  local start, count
  if type(value) == 'string' and (#value == 12 or #value == 14) then
    start, count = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
  end
  if not start or start > MAX_INTEGER or count > MAX_INTEGER then
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
  local cost, events, period = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, moved, corrupt = fixed_window_read(key, window)
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  local action = decide(at + 3, op, count + cost <= events, moved, corrupt)
  if action == 'spend' then
    fixed_window_write(key, window, left, count + cost)
  elseif action == 'rewrite' then
    fixed_window_write(key, window, left, count)
  end
end
local MODULUS = 128
local function sliding_window_integer(text)
  local n = tonumber(text)
  return n and n % 1 == 0 and n >= 0 and n < 9007199254740992 and n -- 2^53
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
  if not (oldest and newest and total and oldest <= newest and newest * length < 9007199254740992) then
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
  local charge = sliding_window_read(key, at)
  sliding_window_report(charge)
  local fits = charge.count + charge.cost <= charge.events
  local action = decide(at + 4, op, fits, charge.moved, charge.corrupt)
  if action == 'spend' then
    sliding_window_spend(charge)
  elseif action == 'rewrite' then
    sliding_window_write(charge, 0)
    sliding_window_expire(charge)
  end
end
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
  local format = width == 4 and '>I4' or width == 5 and '>I5' or width == 6 and '>I6' or width == 7 and '>I7'
  local n = (#member - 14) / width
  if format and n % 1 == 0 then
    return before, n, base + struct.unpack(format, member, 15 + ((i or n) - 1) * width), base, format, width
  end
end
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
local function log_functions()
  local NODES = 9007199254740992 -- 2^53
  local function voids(key, number, stop)
    local node, last = math.floor((number - 1) / 64) + 1, stop / 64
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
  local function slice(member, i, j)
    local _, _, _, _, format, width = log_open(member)
    return string.sub(member, 1, 14)
      .. (format and string.sub(member, 15 + (i - 1) * width, 14 + j * width) or struct.pack('>I6', j - i + 1))
  end
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
local function log_read(key, cost, events, period)
  local NODES = 9007199254740992 -- 2^53, above every time
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
  local moved, cutoff = latest > now, now - period
  if moved then
    cutoff = latest - period
  elseif latest <= cutoff then
    return 0, 0, 0, 0, false, 0, cutoff, nodes
  end
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
      nodes = string.format('%d', NODES + 2 * math.floor((number + size - 1) / 64))
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
local function sliding_log(key, at, op, decide, other)
  local MEMBER = 64 -- bytes; Redis does not keep longer members in a compact block
  local SMALL = 8 -- a cost up to this is recorded event by event, a larger cost as a bulk
  local MAX_COUNT = 281474976710655 -- 2^48 - 1: numbers do not exceed it
  local cost, events, period = other or ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local count, first_leaves, last_leaves, retry, moved, corrupt, stale, nodes, stop, last, base, format =
    log_read(key, cost, events, period)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = count, first_leaves, last_leaves, retry
  local action = decide(at + 4, op, count + cost <= events, moved, corrupt)
  if not action then
    return
  end
  stop = stop or 0
  if corrupt > 0 then
    redis.call('DEL', key)
  elseif moved or stop + cost > MAX_COUNT then
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
        redis.call('ZREMRANGEBYSCORE', key, '(9007199254740992', nodes) -- after 2^53
      end
    end
  end
  redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
end
algorithms.sliding_log = sliding_log
local key, last_key -- indexes in KEYS of the charge that was read last, and of the last charge
local function decide(at, op, fits, moved, corrupt)
  if not fits and (op == 'spend' or op == 'peek') then
    outcome = 0
  end
  if key < last_key then
    key = key + 1
    algorithms[ARGV[at]](KEYS[key], at + 2, ARGV[at + 1], decide)
  end
  if outcome == 0 or not fits then
    return moved and 'rewrite'
  end
  if op == 'spend' or op == 'shadow_spend' then
    outcome = outcome + corrupt
    return 'spend'
  end
end
local function decision(first, charges, at)
  key, last_key = first - 1, first + charges - 1
  decide(at, 'none', true, false, 0)
end
local first, at = 1, 2 -- indexes in KEYS and ARGV
while ARGV[at] do
  local charges, place = ARGV[at] + 0, #reply + 1
  reply[place], outcome = 0, 1
  local done, result = pcall(decision, first, charges, at + 2)
  if not done then
    for i = #reply, place + 1, -1 do
      reply[i] = nil
    end
    outcome = type(result) == 'table' and result.err or result -- before Redis 7, a text
    if string.find(outcome, 'READONLY', 1, true) then
      return { err = outcome }
    end
  end
  reply[place] = outcome
  first, at = first + charges, at + 2 + ARGV[at + 1]
end
return reply

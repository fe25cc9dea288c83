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
local function sliding_window_remove(charge, n, number)
  if charge.count == 0 or not (charge.all or sliding_window_scan(charge)) then
    return
  end
  local first, last, gone, changed, total = nil, nil, {}, {}, 0
  for _, left in ipairs(charge.gone) do
    gone[#gone + 1] = string.format('%d', left % MODULUS)
  end
  for i = #charge.all, 1, -1 do
    local sub = charge.all[i]
    local less = (not number or sub.number == number) and math.min(n, sub.n) or 0
    sub.n, n = sub.n - less, n - less
    if sub.n == 0 then
      gone[#gone + 1] = string.format('%d', sub.number % MODULUS)
    else
      first, last, total = sub.number, last or sub.number, total + sub.n
      if less > 0 then
        changed = { string.format('%d', sub.number % MODULUS), string.format('%d', sub.n) }
      end
    end
  end
  if charge.moved or total == 0 then
    sliding_window_write(charge, 0)
  else
    redis.call('HSET', charge.key, 'o', string.format('%d', first), 'l', string.format('%d', last), 't', string.format('%d', total), unpack(changed))
    if #gone > 0 then
      redis.call('HDEL', charge.key, unpack(gone))
    end
  end
  sliding_window_expire(charge)
end
function algorithms.sliding_window(key, at, op)
  local MAX_COUNT = 281474976710655 -- 2^48 - 1
  local charge, receipt, after = sliding_window_read(key, at), at + 4, at + 4
  if op == 'debit' then
    outcome = outcome + charge.corrupt
    charge.cost = math.min(charge.cost, MAX_COUNT - charge.count)
    if charge.cost > 0 then
      sliding_window_spend(charge)
    end
  elseif op == 'credit' then
    sliding_window_remove(charge, charge.cost)
  elseif op == 'undo' then
    local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
    after = receipt + 4
    local stepped_back = now - time < age
    if charge.count > 0 and not charge.moved and not stepped_back then
      sliding_window_remove(charge, charge.cost, (time - time % charge.length) / charge.length)
    end
  end
  if op ~= 'reset' then
    charge = sliding_window_read(key, at, 1)
  end
  sliding_window_report(charge)
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

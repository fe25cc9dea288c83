-- sliding_window: counts the events of sub-windows. The oldest sub-window counts in full until all
-- of it has left the window.
--
-- State      a hash: for each sub-window its number modulo 128 and its count (small numbers,
--            which Redis packs in two to four bytes each), and
--              o  the number of the oldest sub-window; sub-window 0 begins at the Unix epoch
--              l  the number of the newest sub-window
--              t  the count of all sub-windows
-- Arguments  cost, events, period (us), length of a sub-window (us)
-- Reading    the time until the current sub-window ends (us); count; and three times (us): until
--            the first event leaves the window, until the last event leaves, and until enough
--            events have left for the cost to fit; 0 without such events
-- TTL        until the newest sub-window leaves the window
--
-- While the oldest sub-window is in the window and the cost is one, only o, l, t and the
-- current sub-window are read.
-- Inserted   MAX_INTEGER

-- At least 121: a window has at most 120 sub-windows (maxSubWindows of package driver) and overlaps one more.
local MODULUS = 128

local function sliding_window_integer(text)
  local n = tonumber(text)
  return n and n % 1 == 0 and n >= 0 and n <= MAX_INTEGER and n
end

-- Reads all sub-windows. Sets charge.all (the sub-windows in the window, oldest first), charge.gone
-- (the numbers of the sub-windows that have left it) and charge.count. Returns charge.all, or false
-- or nil if the state is unreadable.
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

-- Returns the time until the sub-window with that number leaves the window.
local function sliding_window_leaves(charge, number)
  return math.min((number + 1) * charge.length - 1, charge.stamp) - now + charge.period
end

-- Sets the fields of charge from the state. Returns false or nil if the state is unreadable.
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
  if not (oldest and newest and total and oldest <= newest and newest * length <= MAX_INTEGER) then
    return false
  end
  charge.newest, charge.known = newest, true
  -- Events that had left when the newest event was admitted do not return when the clock
  -- steps back.
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

-- Reads the state for a cost, by default that of the arguments.
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

-- Writes all sub-windows again, and adds the cost to the current sub-window. Sub-windows after the
-- current one become part of it.
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

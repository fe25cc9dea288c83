-- sliding_window: counts the events of sub-windows, of which the oldest counts
-- in full until all of it has left.
--
-- State     a hash: for every sub-window its number modulo 128 and its count (small
--           numbers, which Redis packs in two to four bytes each), and
--             g  the length of a sub-window (us)
--             o  the number of the oldest sub-window; numbers count from 1970
--             l  the number of the newest
--             t  the count of all sub-windows
-- Arguments cost, events, period (us), length of a sub-window (us)
-- Reading   how long the current sub-window lasts (us); count; how long until the
--           first, the last, and enough events for the cost leave (us)
-- TTL       until the newest sub-window leaves
--
-- While the oldest sub-window is in the window and the cost is one, nothing but
-- o, l, t and the current sub-window is read.

--- functions
local SLOTS = 128 -- a window of core.MaxSubWindows, 120, reaches into 121

local function counter_integer(text)
  local n = tonumber(text)
  return n and n % 1 == 0 and n >= 0 and n < 9007199254740992 and n
end

-- Whether a field is that of a sub-window.
local COUNTER_META = { g = true, o = true, l = true, t = true }

-- All sub-windows that have not left, oldest first; nil if they cannot be read.
local function counter_scan(key, plan)
  local fields = call('HGETALL', key)
  local counts, all, gone, total = {}, {}, {}, 0
  for i = 1, #fields, 2 do
    local name = fields[i]
    if not COUNTER_META[name] then
      local slot, n = counter_integer(name), counter_integer(fields[i + 1])
      if not slot or not n or slot >= SLOTS then
        return nil
      end
      counts[slot] = n
    end
  end
  for number = plan.newest - SLOTS + 1, plan.newest do
    local n = counts[number % SLOTS]
    if n and (number + 1) * plan.grain - 1 > plan.cutoff then
      all[#all + 1] = { number = number, n = n }
      total = total + n
    elseif n then
      gone[#gone + 1] = number
    end
  end
  plan.all, plan.gone, plan.count = all, gone, total
  return #all > 0 and all[#all].number == plan.newest and all
end

-- When the sub-window of that number leaves.
local function counter_leaves(plan, number)
  return math.min((number + 1) * plan.grain - 1, plan.stamp) - now + plan.period
end

local function counter_load(key, plan)
  local meta = pcall('HMGET', key, 'g', 'o', 'l', 't', format('%d', plan.current % SLOTS))
  if meta.err then
    return false
  end
  if not meta[1] then
    return call('EXISTS', key) == 0
  end
  local grain, oldest, newest, total = counter_integer(meta[1]), counter_integer(meta[2]), counter_integer(meta[3]), counter_integer(meta[4])
  if not (grain and grain > 0 and oldest and newest and total and oldest <= newest and newest * grain < 9007199254740992) then
    return false
  end
  plan.grain, plan.newest, plan.known = grain, newest, true
  -- What had left when the newest event was admitted does not come back when
  -- the clock steps back.
  plan.cutoff = math.max(now, newest * grain) - plan.period
  if (newest + 1) * grain - 1 <= plan.cutoff then
    return true -- all of it has left
  end
  plan.moved = (newest + 1) * grain - 1 > plan.stamp
  local excess = total + plan.cost - plan.events
  if not plan.moved and grain == plan.length and (oldest + 1) * grain - 1 > plan.cutoff and (excess <= 1 or plan.cost > plan.events) then
    plan.count, plan.oldest = total, oldest
    plan.here = newest == plan.current and counter_integer(meta[5]) or 0
    plan.first, plan.last = counter_leaves(plan, oldest), counter_leaves(plan, newest)
    plan.retry = excess > 0 and plan.first or 0
    return total > 0
  end
  local all = counter_scan(key, plan)
  if not all or plan.count == 0 then
    return false
  end
  plan.first, plan.last = counter_leaves(plan, all[1].number), counter_leaves(plan, newest)
  excess = plan.count + plan.cost - plan.events
  if excess > 0 and plan.cost <= plan.events then
    for _, sub in ipairs(all) do
      excess = excess - sub.n
      if excess <= 0 then
        plan.retry = counter_leaves(plan, sub.number)
        break
      end
    end
  end
  return true
end

local function counter_read(key, cost, events, period, length)
  local plan = {
    cost = cost + 0, events = events + 0, period = period + 0, length = length + 0,
    count = 0, first = 0, last = 0, retry = 0, corrupt = 0,
  }
  plan.current = (now - now % plan.length) / plan.length
  plan.stamp = (plan.current + 1) * plan.length - 1
  if not counter_load(key, plan) then
    plan.corrupt, plan.known, plan.moved, plan.all, plan.count, plan.retry, plan.oldest = 1, true, false, nil, 0, 0, nil
  end
  return plan
end

-- Writes all sub-windows anew, those after the current one as part of it.
local function counter_rewrite(key, plan, cost)
  local numbers, args, total = {}, {}, 0 -- numbers are ascending, as plan.all is
  local function put(number, n)
    if n > 0 and numbers[#numbers] == number then
      args[#args] = args[#args] + n
    elseif n > 0 then
      numbers[#numbers + 1] = number
      args[#args + 1], args[#args + 2] = number % SLOTS, n
    end
    total = total + n
  end
  for _, sub in ipairs(plan.all or {}) do
    local last = math.min((sub.number + 1) * plan.grain - 1, plan.stamp)
    put((last - last % plan.length) / plan.length, sub.n)
  end
  put(plan.current, cost)
  if plan.known then
    call('DEL', key)
  end
  if total == 0 then
    return
  end
  for i = 1, #args do
    args[i] = format('%d', args[i])
  end
  call('HSET', key, 'g', format('%d', plan.length), 'o', format('%d', numbers[1]), 'l', format('%d', numbers[#numbers]),
    't', format('%d', total), unpack(args))
end

local function counter_expire(key, plan)
  call('PEXPIRE', key, format('%d', (plan.period + plan.length) / 1000 + 1 + slack))
end

local function counter_spend(key, plan)
  if plan.oldest then
    call('HSET', key, 'l', format('%d', plan.current), 't', format('%d', plan.count + plan.cost),
      format('%d', plan.current % SLOTS), format('%d', plan.here + plan.cost))
  elseif plan.moved or not plan.all or plan.grain ~= plan.length then
    counter_rewrite(key, plan, plan.cost)
  else
    local all = plan.all
    local here = all[#all].number == plan.current and all[#all].n or 0
    call('HSET', key, 'o', format('%d', all[1].number), 'l', format('%d', plan.current), 't', format('%d', plan.count + plan.cost),
      format('%d', plan.current % SLOTS), format('%d', here + plan.cost))
    for _, number in ipairs(plan.gone) do
      if number % SLOTS ~= plan.current % SLOTS then
        call('HDEL', key, format('%d', number % SLOTS))
      end
    end
  end
  counter_expire(key, plan)
end

--- adjust
-- Takes n events out of those sub-windows of which from(sub) is true, the newest first,
-- and writes what has changed. At most one of them loses some of its events but not all.
local function counter_less(key, plan, n, from)
  if plan.count == 0 or not (plan.all or counter_scan(key, plan)) then
    return
  end
  local first, last, gone, changed, total = nil, nil, {}, {}, 0
  for _, number in ipairs(plan.gone) do
    gone[#gone + 1] = format('%d', number % SLOTS)
  end
  for i = #plan.all, 1, -1 do
    local sub = plan.all[i]
    local less = from(sub) and math.min(n, sub.n) or 0
    sub.n, n = sub.n - less, n - less
    if sub.n == 0 then
      gone[#gone + 1] = format('%d', sub.number % SLOTS)
    else
      first, last, total = sub.number, last or sub.number, total + sub.n
      if less > 0 then
        changed = { format('%d', sub.number % SLOTS), format('%d', sub.n) }
      end
    end
  end
  if plan.moved or plan.grain ~= plan.length or total == 0 then
    counter_rewrite(key, plan, 0)
  else
    call('HSET', key, 'o', format('%d', first), 'l', format('%d', last), 't', format('%d', total), unpack(changed))
    if #gone > 0 then
      call('HDEL', key, unpack(gone))
    end
  end
  counter_expire(key, plan)
end

-- Takes the newest events out, as many as the cost.
local function counter_give(key, plan)
  counter_less(key, plan, plan.cost, function()
    return true
  end)
end

-- Takes the cost out of the sub-window of `time`, if it is still there.
local function counter_undo(key, plan, time)
  if not plan.moved then
    counter_less(key, plan, plan.cost, function(sub)
      return sub.number == (time - time % plan.grain) / plan.grain
    end)
  end
end

--- read
local plan_N = counter_read(KEYS[I_N], ARGV[A_N + 1], ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- fits plan_N.count + plan_N.cost <= plan_N.events

--- spend
counter_spend(KEYS[I_N], plan_N)

--- touch
if plan_N.moved then
  counter_rewrite(KEYS[I_N], plan_N, 0)
  counter_expire(KEYS[I_N], plan_N)
end

--- debit
plan_N.cost = math.min(plan_N.cost, 281474976710655 - plan_N.count) -- no more than 2^48 - 1
if plan_N.cost > 0 then
  counter_spend(KEYS[I_N], plan_N)
end
plan_N = counter_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- undo
if now - ARGV[M_N + 1] >= ARGV[M_N + 4] + 0 then -- the clock has not stepped back since
  counter_undo(KEYS[I_N], plan_N, ARGV[M_N + 1] + 0)
end
plan_N = counter_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- credit
counter_give(KEYS[I_N], plan_N)
plan_N = counter_read(KEYS[I_N], 1, ARGV[A_N + 2], ARGV[A_N + 3], ARGV[A_N + 4])

--- corrupt plan_N.corrupt

--- report plan_N.stamp - now, plan_N.count, plan_N.first, plan_N.last, plan_N.retry

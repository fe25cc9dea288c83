local call, pcall, format = redis.call, redis.pcall, string.format
local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
local now, slack
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  slack = 1 -- added to all TTLs, because they are rounded down to milliseconds
else
  now = ARGV[1] + 0
  slack = 86400000 -- the clock of a test does not tell when the server forgets a key
end
local function unreadable(reply)
  if type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err, 0)
  end
  return 1
end
local MAX_COUNT = 281474976710655 -- 2^48 - 1: no state counts more events
local algorithms = {}
local HORIZON = 3162240000000000 -- us, 100 years: the longest span, driver.Horizon
local function bucket_read(key, full, full_fraction, den)
  local value = pcall('GET', key)
  if not value then
    return 0, 0, false, 0
  end
  local us, fraction, since = tonumber(value), 0, 0
  if not us and type(value) == 'string' and #value < 60 then
    us, fraction, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
    us, fraction, since = tonumber(us), tonumber(fraction), tonumber(since) or 0
  end
  if not us or us % 1 ~= 0 or us > MAX_INTEGER or fraction > MAX_INTEGER
    or since ~= 0 and (since > us or us - since > HORIZON) then
    return 0, 0, false, unreadable(value)
  end
  if fraction >= den then -- written under another rate
    us, fraction = us + 1, 0
  end
  if since > now then -- the clock stepped back
    return us - since, fraction, true, 0
  end
  local used = us - now
  if used < 0 then
    return 0, 0, false, 0
  end
  if since == 0 and (used > full or used == full and fraction > full_fraction) then
    return full, full_fraction, true, 0
  end
  return used, fraction, false, 0
end
local function bucket_add(used, fraction, more, more_fraction, den)
  used, fraction = used + more, fraction + more_fraction
  if fraction >= den then
    return used + 1, fraction - den
  end
  return used, fraction
end
local function bucket_write(key, used, fraction, full, full_fraction)
  local value
  if used > full or used == full and fraction > full_fraction then -- in debt
    value = format('%d %d %d', now + used, fraction, now)
  elseif fraction > 0 then
    value = format('%d %d', now + used, fraction)
  else
    value = format('%d', now + used)
  end
  call('PSETEX', key, format('%d', (used + 1000) / 1000 + slack), value)
end
local function bucket_charge_read(key, at)
  local full, full_fraction, den = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] + 0
  local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
  local after, after_fraction = bucket_add(used, fraction, ARGV[at], ARGV[at + 1], den)
  local fits = after < full or after == full and after_fraction <= full_fraction
  local max_delay = ARGV[at + 5]
  if max_delay ~= '' and (used > max_delay + 0 or used == max_delay + 0 and fraction > 0) then
    fits = false
  end
  return {
    key = key, used = used, fraction = fraction, moved = moved, corrupt = corrupt, fits = fits,
    after = after, after_fraction = after_fraction, full = full, full_fraction = full_fraction, den = den,
  }
end
local function bucket_charge_spend(charge)
  bucket_write(charge.key, charge.after, charge.after_fraction, charge.full, charge.full_fraction)
end
local function bucket_charge_rewrite(charge)
  bucket_write(charge.key, charge.used, charge.fraction, charge.full, charge.full_fraction)
end
local function bucket_charge_report(charge, reply, size)
  reply[size + 1], reply[size + 2] = charge.used, charge.fraction
  return size + 2
end
algorithms.bucket = {
  arguments = 6,
  read = bucket_charge_read,
  spend = bucket_charge_spend,
  rewrite = bucket_charge_rewrite,
  report = bucket_charge_report,
}
local function bucket_free(charge, back, back_fraction)
  local used, fraction = charge.used - back, charge.fraction - back_fraction
  if fraction < 0 then
    used, fraction = used - 1, fraction + charge.den
  end
  if used < 0 or used == 0 and fraction == 0 then
    call('DEL', charge.key)
    used, fraction = 0, 0
  else
    bucket_write(charge.key, used, fraction, charge.full, charge.full_fraction)
  end
  charge.used, charge.fraction = used, fraction
end
function algorithms.bucket.debit(charge)
  local after, after_fraction = charge.after, charge.after_fraction
  if after >= HORIZON then
    after, after_fraction = HORIZON, 0
  end
  bucket_write(charge.key, after, after_fraction, charge.full, charge.full_fraction)
  return charge
end
function algorithms.bucket.credit(charge, at)
  bucket_free(charge, ARGV[at] + 0, ARGV[at + 1] + 0)
  return charge
end
function algorithms.bucket.undo(charge, at, receipt)
  local back, back_fraction, den = ARGV[at] + 0, ARGV[at + 1] + 0, charge.den
  local time, before, before_fraction = ARGV[receipt] + 0, ARGV[receipt + 1] + 0, ARGV[receipt + 2] + 0
  if ARGV[at + 5] ~= '' then
    local us, fraction = bucket_add(time + before, before_fraction, back, back_fraction, den)
    if now + charge.used ~= us or charge.fraction ~= fraction then
      return charge
    end
  end
  local idle, fraction = math.max(now - time, ARGV[receipt + 3] + 0) - before, -before_fraction
  if fraction < 0 then
    idle, fraction = idle - 1, fraction + den
  end
  if idle >= 0 then
    back, back_fraction = back - idle, back_fraction - fraction
    if back_fraction < 0 then
      back, back_fraction = back - 1, back_fraction + den
    end
  end
  if back >= 0 then
    bucket_free(charge, back, back_fraction)
  end
  return charge
end
local function fixed_window_write(charge, count)
  local value = struct.pack(count < 1099511627776 and '>I7I5' or '>I7I7', charge.start, count)
  call('PSETEX', charge.key, format('%d', (charge.left + 1000) / 1000 + slack), value)
end
local function fixed_window_read(key, at)
  local cost, events, period = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local count, moved, corrupt = 0, false, 0
  local value = pcall('GET', key)
  if value then
    local start, n
    if type(value) == 'string' and (#value == 12 or #value == 14) then
      start, n = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
    end
    if not start or start > MAX_INTEGER or n > MAX_INTEGER then
      corrupt = unreadable(value)
    elseif start > now then
      count, moved = n, n > 0 -- the clock stepped back
    elseif start >= window then
      count = n
    end
  end
  return {
    key = key, cost = cost, period = period, start = window, left = window + period - now,
    count = count, moved = moved, corrupt = corrupt, fits = count + cost <= events,
  }
end
local function fixed_window_spend(charge)
  fixed_window_write(charge, charge.count + charge.cost)
end
local function fixed_window_rewrite(charge)
  fixed_window_write(charge, charge.count)
end
local function fixed_window_report(charge, reply, size)
  reply[size + 1], reply[size + 2] = charge.count, charge.left
  return size + 2
end
algorithms.fixed_window = {
  arguments = 3,
  read = fixed_window_read,
  spend = fixed_window_spend,
  rewrite = fixed_window_rewrite,
  report = fixed_window_report,
}
function algorithms.fixed_window.debit(charge)
  charge.count = math.max(charge.count, math.min(charge.count + charge.cost, MAX_COUNT))
  fixed_window_write(charge, charge.count)
  return charge
end
function algorithms.fixed_window.credit(charge)
  charge.count = math.max(0, charge.count - charge.cost)
  if charge.count == 0 then
    call('DEL', charge.key)
  else
    fixed_window_write(charge, charge.count)
  end
  return charge
end
function algorithms.fixed_window.undo(charge, _, receipt)
  local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
  local same_window = time - time % charge.period == charge.start
  local stepped_back = now - time < age
  if same_window and not stepped_back then
    return algorithms.fixed_window.credit(charge)
  end
  return charge
end
local SLOTS = 128 -- a window of core.MaxSubWindows, 120, reaches into 121
local function sliding_window_integer(text)
  local n = tonumber(text)
  return n and n % 1 == 0 and n >= 0 and n <= MAX_INTEGER and n
end
local function sliding_window_scan(charge)
  local fields = call('HGETALL', charge.key)
  local counts, all, gone, total = {}, {}, {}, 0
  for i = 1, #fields, 2 do
    local name = fields[i]
    if name ~= 'g' and name ~= 'o' and name ~= 'l' and name ~= 't' then
      local slot, n = sliding_window_integer(name), sliding_window_integer(fields[i + 1])
      if not slot or not n or slot >= SLOTS then
        return nil
      end
      counts[slot] = n
    end
  end
  for number = charge.newest - SLOTS + 1, charge.newest do
    local n = counts[number % SLOTS]
    if n and (number + 1) * charge.grain - 1 > charge.cutoff then
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
  return math.min((number + 1) * charge.grain - 1, charge.stamp) - now + charge.period
end
local function sliding_window_load(charge)
  local meta = pcall('HMGET', charge.key, 'g', 'o', 'l', 't', format('%d', charge.current % SLOTS))
  if meta.err then
    unreadable(meta)
    return false
  end
  if not meta[1] then
    return call('EXISTS', charge.key) == 0
  end
  local grain, oldest = sliding_window_integer(meta[1]), sliding_window_integer(meta[2])
  local newest, total = sliding_window_integer(meta[3]), sliding_window_integer(meta[4])
  if not (grain and grain > 0 and oldest and newest and total and oldest <= newest and newest * grain <= MAX_INTEGER) then
    return false
  end
  charge.grain, charge.newest, charge.known = grain, newest, true
  charge.cutoff = math.max(now, newest * grain) - charge.period
  if (newest + 1) * grain - 1 <= charge.cutoff then
    return true -- all of it has left
  end
  charge.moved = (newest + 1) * grain - 1 > charge.stamp
  local cost, events = charge.cost, charge.events
  local excess = total + cost - events
  if not charge.moved and grain == charge.length and (oldest + 1) * grain - 1 > charge.cutoff and (excess <= 1 or cost > events) then
    charge.count, charge.oldest = total, oldest
    charge.here = newest == charge.current and sliding_window_integer(meta[5]) or 0
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
    known = false, grain = nil, newest = nil, cutoff = nil, -- from the state
    oldest = nil, here = nil, -- if not all sub-windows were read
    all = nil, gone = nil, -- if they were
  }
  if not sliding_window_load(charge) then
    charge.corrupt, charge.known, charge.moved = 1, true, false
    charge.count, charge.retry, charge.all, charge.oldest = 0, 0, nil, nil
  end
  charge.fits = charge.count + charge.cost <= charge.events
  return charge
end
local function sliding_window_write(charge, cost)
  local numbers, args, total = {}, {}, 0 -- numbers are ascending, as charge.all is
  local function put(number, n)
    if n > 0 and numbers[#numbers] == number then
      args[#args] = args[#args] + n
    elseif n > 0 then
      numbers[#numbers + 1] = number
      args[#args + 1], args[#args + 2] = number % SLOTS, n
    end
    total = total + n
  end
  for _, sub in ipairs(charge.all or {}) do
    local last = math.min((sub.number + 1) * charge.grain - 1, charge.stamp)
    put((last - last % charge.length) / charge.length, sub.n)
  end
  put(charge.current, cost)
  if charge.known then
    call('DEL', charge.key)
  end
  if total == 0 then
    return
  end
  for i = 1, #args do
    args[i] = format('%d', args[i])
  end
  call('HSET', charge.key, 'g', format('%d', charge.length), 'o', format('%d', numbers[1]),
    'l', format('%d', numbers[#numbers]), 't', format('%d', total), unpack(args))
end
local function sliding_window_expire(charge)
  call('PEXPIRE', charge.key, format('%d', (charge.period + charge.length) / 1000 + 1 + slack))
end
local function sliding_window_spend(charge)
  local key, current, count = charge.key, charge.current, charge.count + charge.cost
  if charge.oldest then
    call('HSET', key, 'l', format('%d', current), 't', format('%d', count),
      format('%d', current % SLOTS), format('%d', charge.here + charge.cost))
  elseif charge.moved or not charge.all or charge.grain ~= charge.length then
    sliding_window_write(charge, charge.cost)
  else
    local all = charge.all
    local here = all[#all].number == current and all[#all].n or 0
    call('HSET', key, 'o', format('%d', all[1].number), 'l', format('%d', current), 't', format('%d', count),
      format('%d', current % SLOTS), format('%d', here + charge.cost))
    for _, number in ipairs(charge.gone) do
      if number % SLOTS ~= current % SLOTS then
        call('HDEL', key, format('%d', number % SLOTS))
      end
    end
  end
  sliding_window_expire(charge)
end
local function sliding_window_rewrite(charge)
  sliding_window_write(charge, 0)
  sliding_window_expire(charge)
end
local function sliding_window_report(charge, reply, size)
  reply[size + 1], reply[size + 2], reply[size + 3] = charge.stamp - now, charge.count, charge.first
  reply[size + 4], reply[size + 5] = charge.last, charge.retry
  return size + 5
end
algorithms.sliding_window = {
  arguments = 4,
  read = sliding_window_read,
  spend = sliding_window_spend,
  rewrite = sliding_window_rewrite,
  report = sliding_window_report,
}
local function sliding_window_remove(charge, n, number)
  if charge.count == 0 or not (charge.all or sliding_window_scan(charge)) then
    return
  end
  local first, last, gone, changed, total = nil, nil, {}, {}, 0
  for _, left in ipairs(charge.gone) do
    gone[#gone + 1] = format('%d', left % SLOTS)
  end
  for i = #charge.all, 1, -1 do
    local sub = charge.all[i]
    local less = (not number or sub.number == number) and math.min(n, sub.n) or 0
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
  if charge.moved or charge.grain ~= charge.length or total == 0 then
    sliding_window_write(charge, 0)
  else
    call('HSET', charge.key, 'o', format('%d', first), 'l', format('%d', last), 't', format('%d', total), unpack(changed))
    if #gone > 0 then
      call('HDEL', charge.key, unpack(gone))
    end
  end
  sliding_window_expire(charge)
end
function algorithms.sliding_window.debit(charge, at)
  charge.cost = math.min(charge.cost, MAX_COUNT - charge.count)
  if charge.cost > 0 then
    sliding_window_spend(charge)
  end
  return sliding_window_read(charge.key, at, 1)
end
function algorithms.sliding_window.credit(charge, at)
  sliding_window_remove(charge, charge.cost)
  return sliding_window_read(charge.key, at, 1)
end
function algorithms.sliding_window.undo(charge, at, receipt)
  local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
  local stepped_back = now - time < age
  if charge.count > 0 and not charge.moved and not stepped_back then
    sliding_window_remove(charge, charge.cost, (time - time % charge.grain) / charge.grain)
  end
  return sliding_window_read(charge.key, at, 1)
end
local HEADER, MEMBER = 14, 64 -- bytes; 64 is the longest that stays compact
local SMALL = 8 -- costs up to this are recorded one by one, others as a bulk
local BLOCK = 64 -- numbers
local NODES = MAX_INTEGER + 1 -- above every time
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
  while charge.voided and node < last do -- no number follows the last member
    if node % (2 * lowest) ~= 0 then
      local score = format('%d', NODES + 2 * node)
      local member = call('ZRANGEBYSCORE', charge.key, score, score)[1]
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
  local low, high = call('ZRANK', charge.key, charge.first.bytes), call('ZRANK', charge.key, charge.last.bytes)
  while low <= high do
    local rank = math.floor((low + high) / 2)
    local middle = log_open(call('ZRANGE', charge.key, rank, rank)[1])
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
  local newest = pcall('ZREVRANGE', charge.key, 0, 0, 'WITHSCORES')
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
    newest = call('ZREVRANGEBYSCORE', charge.key, format('%d', NODES), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
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
  local first = call('ZRANGEBYSCORE', charge.key, format('(%d', charge.cutoff), '+inf', 'LIMIT', 0, 1)[1]
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
  charge.fits = excess <= 0
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
  call('ZADD', key, format('%d', time), member)
end
local function log_expire(charge)
  call('PEXPIRE', charge.key, format('%d', math.ceil(charge.period / 1000) + slack))
end
local function log_header(width, before, base)
  return struct.pack('>I6BI7', before, width, base)
end
local function log_rebase(charge)
  local members = call('ZRANGEBYSCORE', charge.key, format('(%d', charge.cutoff), format('%d', NODES))
  call('DEL', charge.key)
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
    call('DEL', charge.key)
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
    call('ZREM', charge.key, extended)
  elseif charge.cutoff then
    call('ZREMRANGEBYSCORE', charge.key, '-inf', format('%d', charge.cutoff))
    if charge.voided then
      local score = '+inf'
      if charge.first and charge.voids > 0 then
        local node = math.floor((charge.first.before + charge.first.n - 1) / BLOCK)
        score = format('%d', NODES + 2 * node)
      end
      call('ZREMRANGEBYSCORE', charge.key, format('(%d', NODES), score)
    end
  end
  log_expire(charge)
end
local function sliding_log_rewrite(charge)
  log_rebase(charge)
  log_expire(charge)
end
local function sliding_log_report(charge, reply, size)
  reply[size + 1], reply[size + 2] = charge.count, charge.first_leaves
  reply[size + 3], reply[size + 4] = charge.last_leaves, charge.retry
  return size + 4
end
algorithms.sliding_log = {
  arguments = 4,
  read = sliding_log_read,
  spend = sliding_log_spend,
  rewrite = sliding_log_rewrite,
  report = sliding_log_report,
}
local function log_block(number)
  return math.floor((number - 1) / BLOCK) + 1
end
local function log_at(key, rank)
  return rank >= 0 and log_open(call('ZRANGE', key, rank, rank)[1] or '')
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
  call('ZREMRANGEBYSCORE', charge.key, '-inf', format('%d', charge.cutoff))
  local first, left = charge.first, charge.left
  if left > 0 then
    local rest = log_number(log_slice(first, left + 1, first.n), first.before + left)
    call('ZREM', charge.key, first.bytes)
    log_add(charge.key, log_time(rest, rest.n), rest.bytes)
    charge.first, charge.left = rest, 0
    charge.last = charge.last == first and rest or charge.last
  end
end
local function log_change(charge, node, change)
  local lowest, first = 1, log_block(charge.first.before + charge.first.n)
  while node >= first do
    if node % (2 * lowest) ~= 0 then
      local score = format('%d', NODES + 2 * node)
      local member = call('ZRANGEBYSCORE', charge.key, score, score)[1]
      local sum = change((node + lowest - 1) * BLOCK)
      if member then
        sum = sum + (#member == 12 and struct.unpack('>I6', member, 7) or 0)
        call('ZREM', charge.key, member)
      end
      if sum > 0 then
        call('ZADD', charge.key, score, struct.pack('>I6I6', node, sum))
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
    call('DEL', charge.key)
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
    call('ZREMRANGEBYSCORE', charge.key, format('%d', NODES + 2 * node), '+inf')
  end
  local newest = call('ZRANK', charge.key, charge.last.bytes)
  call('ZREMRANGEBYRANK', charge.key, rank, newest)
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
  local found = log_open(call('ZRANGEBYSCORE', charge.key, format('%d', time), '+inf', 'LIMIT', 0, 1)[1] or '')
  if not found or log_until(found, time - 1) == log_until(found, time) then
    return
  end
  local node, from = log_block(found.before + found.n), call('ZRANK', charge.key, found.bytes)
  local rank = from
  local prior = log_at(charge.key, rank - 1)
  while prior and log_block(prior.before + prior.n) == node do
    rank = rank - 1
    prior = log_at(charge.key, rank - 1)
  end
  local changes = {} -- of the void numbers of blocks
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
  for _, chunk in ipairs(old) do
    if new[chunk.bytes] then
      new[chunk.bytes] = false
    else
      call('ZREM', charge.key, chunk.bytes)
    end
  end
  for _, chunk in ipairs(list) do
    if new[chunk.bytes] then
      log_add(charge.key, log_time(chunk, chunk.n), chunk.bytes)
    end
  end
  last = list[#list] or prior
  if not last and not chunk then
    call('DEL', charge.key)
    return
  end
  gap(last, chunk, 1)
  for node, size in pairs(changes) do
    if size ~= 0 then
      log_change(charge, node, function()
        return size
      end)
    end
  end
end
function algorithms.sliding_log.debit(charge, at)
  charge.cost = math.min(charge.cost, MAX_COUNT - charge.count)
  if charge.cost > 0 then
    sliding_log_spend(charge)
  end
  return sliding_log_read(charge.key, at, 1)
end
function algorithms.sliding_log.credit(charge, at)
  log_remove_newest(charge, charge.cost)
  log_expire(charge) -- the key may have been deleted and written again
  return sliding_log_read(charge.key, at, 1)
end
function algorithms.sliding_log.undo(charge, at, receipt)
  local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
  local stepped_back = now - time < age
  if not stepped_back then
    log_remove_at(charge, charge.cost, time)
  end
  log_expire(charge)
  return sliding_log_read(charge.key, at, 1)
end
local RECEIPT = 4 -- arguments
local reply, size, at, corrupt = { now, 1, 0, nil, nil, nil, nil, nil }, 3, 2, 0 -- nil makes room
for i = 1, #KEYS do
  local algorithm, op = algorithms[ARGV[at]], ARGV[at + 1]
  local charge, arguments = algorithm.read(KEYS[i], at + 2), at + 2
  at = arguments + algorithm.arguments
  if op == 'reset' then
    call('DEL', KEYS[i])
  elseif op == 'undo' then
    charge = algorithm.undo(charge, arguments, at)
    at = at + RECEIPT
  else
    if op == 'debit' then
      corrupt = corrupt + charge.corrupt
    end
    charge = algorithm[op](charge, arguments)
  end
  size = algorithm.report(charge, reply, size)
end
reply[3] = corrupt
return reply

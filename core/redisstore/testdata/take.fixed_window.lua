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
local reply, size = { now, nil, nil, nil, nil, nil, nil, nil }, 1 -- nil makes room
local key, at = 0, 2
while ARGV[at] do
  local charges, count, admitted = {}, ARGV[at] + 0, true
  at = at + 1
  for i = 1, count do
    local algorithm, op = algorithms[ARGV[at]], ARGV[at + 1]
    local charge = algorithm.read(KEYS[key + i], at + 2)
    charge.algorithm, charge.op = algorithm, op
    if not charge.fits and (op == 'spend' or op == 'peek') then
      admitted = false
    end
    charges[i] = charge
    at = at + 2 + algorithm.arguments
  end
  key = key + count
  local outcome, corrupt = size + 1, 0
  size = size + 2
  for i = 1, count do
    local charge = charges[i]
    local algorithm, op = charge.algorithm, charge.op
    size = algorithm.report(charge, reply, size)
    if not (admitted and charge.fits) then
      if charge.moved then
        algorithm.rewrite(charge)
      end
    elseif op == 'spend' or op == 'shadow_spend' then
      algorithm.spend(charge)
      corrupt = corrupt + charge.corrupt
    end
  end
  reply[outcome], reply[outcome + 1] = admitted and 1 or 2, corrupt
end
return reply

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

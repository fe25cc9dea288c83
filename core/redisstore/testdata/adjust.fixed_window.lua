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
function algorithms.fixed_window(key, at, op)
  local MAX_COUNT = 281474976710655 -- 2^48 - 1
  local cost, period = ARGV[at] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, _, corrupt = fixed_window_read(key, window)
  at = at + 3
  if op == 'debit' then
    outcome = outcome + corrupt
    count = math.max(count, math.min(count + cost, MAX_COUNT))
    fixed_window_write(key, window, left, count)
  end
  local free = op == 'credit'
  if op == 'undo' then
    local time, age = ARGV[at] + 0, ARGV[at + 3] + 0
    at = at + 4
    local stepped_back = now - time < age
    free = time - time % period == window and not stepped_back
  end
  if free then
    count = math.max(0, count - cost)
    if count == 0 then
      redis.call('DEL', key)
    else
      fixed_window_write(key, window, left, count)
    end
  end
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  return at
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

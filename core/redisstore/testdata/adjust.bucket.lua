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
local function bucket_subtract(us, fraction, less, less_fraction, den)
  us, fraction = us - less, fraction - less_fraction
  if fraction < 0 then
    return us - 1, fraction + den
  end
  return us, fraction
end
function algorithms.bucket(key, arguments, op)
  local HORIZON = 3162240000000000 -- us, 100 years: the longest span
  local back, back_fraction, full, full_fraction, den, max_delay = bucket_arguments(arguments)
  local used, fraction, after, after_fraction, _, _, corrupt =
    bucket_read(key, back, back_fraction, full, full_fraction, den)
  local at = arguments + 4
  if op == 'debit' then
    outcome = outcome + corrupt
    if after >= HORIZON then
      after, after_fraction = HORIZON, 0
    end
    bucket_write(key, after, after_fraction, full, full_fraction)
  end
  local free = op == 'credit'
  if op == 'undo' then
    local time, before, before_fraction, age = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
    at = at + 4
    free = true
    if max_delay then
      local others, others_fraction = bucket_subtract(now + used, fraction, back, back_fraction, den)
      free = others == time + before and others_fraction == before_fraction
    end
    local idle, idle_fraction = bucket_subtract(math.max(now - time, age), 0, before, before_fraction, den)
    if idle >= 0 then
      back, back_fraction = bucket_subtract(back, back_fraction, idle, idle_fraction, den)
    end
    free = free and back >= 0
  end
  if free then
    used, fraction = bucket_subtract(used, fraction, back, back_fraction, den)
    if used < 0 or used == 0 and fraction == 0 then
      redis.call('DEL', key)
      used, fraction = 0, 0
    else
      bucket_write(key, used, fraction, full, full_fraction)
    end
  end
  local size = #reply
  reply[size + 1], reply[size + 2] = used, fraction
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

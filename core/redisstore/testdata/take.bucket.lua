local now, slack
if ARGV[1] == '' then
  local time = redis.call('TIME')
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
local algorithms = {}
local reply = { now, nil, nil, nil, nil, nil, nil, nil } -- nil makes room
local function bucket_read(key, full, full_fraction, den)
  local MAX_INTEGER = 9007199254740991 -- 2^53 - 1
  local HORIZON = 3162240000000000 -- us, 100 years: the longest span
  local value = redis.pcall('GET', key)
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
local function bucket_fits(used, fraction, at, full, full_fraction, den)
  local after, after_fraction, max_delay = used + ARGV[at], fraction + ARGV[at + 1], ARGV[at + 5]
  if after_fraction >= den then
    after, after_fraction = after + 1, after_fraction - den
  end
  local fits = after < full or after == full and after_fraction <= full_fraction
  if max_delay and max_delay ~= '' then
    fits = fits and (used < max_delay + 0 or used == max_delay + 0 and fraction == 0)
  end
  return after, after_fraction, fits
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
  local full, full_fraction, den = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 4] + 0
  local used, fraction, moved, corrupt = bucket_read(key, full, full_fraction, den)
  local after, after_fraction, fits = bucket_fits(used, fraction, at, full, full_fraction, den)
  local size = #reply
  reply[size + 1], reply[size + 2] = used, fraction
  local action = decide(at + 6, op, fits, moved, corrupt)
  if action == 'spend' then
    bucket_write(key, after, after_fraction, full, full_fraction)
  elseif action == 'rewrite' then
    bucket_write(key, used, fraction, full, full_fraction)
  end
end
local key, last = 0, 0 -- indexes of KEYS: that of the charge, and of the last of the decision
local at = 2 -- index of ARGV, of the next decision
local outcome -- of the decision, as in the reply
local function decide(index, op, fits, moved, corrupt)
  if not fits and (op == 'spend' or op == 'peek') then
    outcome = 0
  end
  if key < last then
    key = key + 1
    algorithms[ARGV[index]](KEYS[key], index + 2, ARGV[index + 1], decide)
  else
    at = index
  end
  if outcome == 0 or not fits then
    return moved and 'rewrite'
  end
  if op == 'spend' or op == 'shadow_spend' then
    outcome = outcome + corrupt
    return 'spend'
  end
end
while ARGV[at] do
  local place = #reply + 1
  reply[place], outcome, last = 0, 1, key + ARGV[at]
  decide(at + 1, 'none', true, false, 0)
  reply[place] = outcome
end
return reply

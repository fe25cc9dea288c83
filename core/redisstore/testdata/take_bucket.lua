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
local function spend(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  local used, fraction, after, after_fraction, fits, moved, corrupt =
    bucket_read(key, cost, cost_fraction, full, full_fraction, den, max_delay)
  if fits then
    bucket_write(key, after, after_fraction, full, full_fraction)
    if fraction == 0 and corrupt == 0 then
      return used
    end
    return { 1 + corrupt, used, fraction }
  end
  if moved then
    bucket_write(key, used, fraction, full, full_fraction)
  end
  if fraction == 0 then
    return -1 - used
  end
  return { 0, used, fraction }
end
local reply, at = {}, 2
while ARGV[at] do
  local cost, cost_fraction, full, full_fraction, den, max_delay = bucket_arguments(at + 1)
  for i = #reply + 1, #reply + ARGV[at] do
    local done, result = pcall(spend, KEYS[i], cost, cost_fraction, full, full_fraction, den, max_delay)
    if not done then
      result = type(result) == 'table' and result.err or result -- see decisions.lua
      if string.find(result, 'READONLY', 1, true) then
        return { err = result }
      end
    end
    reply[i] = result
  end
  at = at + 5
end
return #KEYS == 1 and reply[1] or reply

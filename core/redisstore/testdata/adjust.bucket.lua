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

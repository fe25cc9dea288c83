-- sliding_window_adjust: a sliding window as a charge of adjust.lua.
--
-- Inserted   MAX_COUNT

-- Removes n events from the sub-window with that number or, if number is nil, from all sub-windows,
-- newest first. Writes the fields that change. At most one sub-window loses some, but not all, of
-- its events.
local function sliding_window_remove(charge, n, number)
  if charge.count == 0 or not (charge.all or sliding_window_scan(charge)) then
    return
  end
  local first, last, gone, changed, total = nil, nil, {}, {}, 0
  for _, left in ipairs(charge.gone) do
    gone[#gone + 1] = string.format('%d', left % MODULUS)
  end
  for i = #charge.all, 1, -1 do
    local sub = charge.all[i]
    local less = (not number or sub.number == number) and math.min(n, sub.n) or 0
    sub.n, n = sub.n - less, n - less
    if sub.n == 0 then
      gone[#gone + 1] = string.format('%d', sub.number % MODULUS)
    else
      first, last, total = sub.number, last or sub.number, total + sub.n
      if less > 0 then
        changed = { string.format('%d', sub.number % MODULUS), string.format('%d', sub.n) }
      end
    end
  end
  if charge.moved or total == 0 then
    sliding_window_write(charge, 0)
  else
    redis.call('HSET', charge.key, 'o', string.format('%d', first), 'l', string.format('%d', last), 't', string.format('%d', total), unpack(changed))
    if #gone > 0 then
      redis.call('HDEL', charge.key, unpack(gone))
    end
  end
  sliding_window_expire(charge)
end

function algorithms.sliding_window(key, at, op)
  local charge, receipt, after = sliding_window_read(key, at), at + 4, at + 4
  if op == 'debit' then
    replaced = replaced + charge.corrupt
    charge.cost = math.min(charge.cost, MAX_COUNT - charge.count)
    if charge.cost > 0 then
      sliding_window_spend(charge)
    end
  elseif op == 'credit' then
    sliding_window_remove(charge, charge.cost)
  elseif op == 'undo' then
    local time, age = ARGV[receipt] + 0, ARGV[receipt + 3] + 0
    after = receipt + 4
    local stepped_back = now - time < age
    if charge.count > 0 and not charge.moved and not stepped_back then
      sliding_window_remove(charge, charge.cost, (time - time % charge.length) / charge.length)
    end
  end
  if op ~= 'reset' then
    charge = sliding_window_read(key, at, 1)
  end
  sliding_window_report(charge)
  return after
end

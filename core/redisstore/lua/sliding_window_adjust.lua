-- sliding_window_adjust: debit, credit and undo of a sliding window.

-- Removes n events from the sub-window of that number, or if there is none from all
-- sub-windows, the newest first, and writes the fields that change. At most one sub-window
-- loses some of its events but not all.
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

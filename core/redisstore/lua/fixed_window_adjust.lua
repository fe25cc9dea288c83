-- fixed_window_adjust: debit, credit and undo of a fixed window.

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

-- sliding_window_take: a sliding window as a charge of take.lua and at_most.lua.

function algorithms.sliding_window(key, at, op, decide, cost)
  local charge = sliding_window_read(key, at, cost)
  sliding_window_report(charge)
  local fits = charge.count + charge.cost <= charge.events
  local action, taken = decide(at + 4, op, fits, charge.moved, charge.corrupt, charge.events - charge.count)
  if action == 'spend' then
    charge.cost = taken or charge.cost
    sliding_window_spend(charge)
  elseif action == 'rewrite' then
    sliding_window_write(charge, 0)
    sliding_window_expire(charge)
  end
end

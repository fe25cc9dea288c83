-- sliding_window_take: a sliding window as a charge of take.lua.

function algorithms.sliding_window(key, at, op, decide)
  local charge = sliding_window_read(key, at)
  sliding_window_report(charge)
  local fits = charge.count + charge.cost <= charge.events
  local action = decide(at + 4, op, fits, charge.moved, charge.corrupt)
  if action == 'spend' then
    sliding_window_spend(charge)
  elseif action == 'rewrite' then
    sliding_window_write(charge, 0)
    sliding_window_expire(charge)
  end
end

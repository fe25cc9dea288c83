-- sliding_window_at_most: a sliding window as a charge of at_most.lua.

function algorithms.sliding_window(key, at, op, decide)
  local charge, place = sliding_window_read(key, at), #reply
  sliding_window_report(charge)
  local cost, refused = decide(at + 4, op, charge.events - charge.count, charge.corrupt)
  if refused then
    reply[place + 5] = sliding_window_read(key, at, refused).retry
  end
  if cost > 0 then
    charge.cost = cost
    sliding_window_spend(charge)
  elseif charge.moved then
    sliding_window_write(charge, 0)
    sliding_window_expire(charge)
  end
end

-- sliding_log_take: a sliding log as a charge of take.lua.

function algorithms.sliding_log(key, at, op, decide)
  local charge = sliding_log_read(key, at)
  sliding_log_report(charge)
  local fits = charge.count + charge.cost <= charge.events
  local action = decide(at + 4, op, fits, charge.moved, charge.corrupt)
  if action == 'spend' then
    sliding_log_spend(charge)
  elseif action == 'rewrite' then
    log_rebase(charge)
    log_expire(charge)
  end
end

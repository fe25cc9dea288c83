-- fixed_window_take: a fixed window as a charge of take.lua.

function algorithms.fixed_window(key, at, op, decide)
  local cost, events, period = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, moved, corrupt = fixed_window_read(key, window)
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  local action = decide(at + 3, op, count + cost <= events, moved, corrupt)
  if action == 'spend' then
    fixed_window_write(key, window, left, count + cost)
  elseif action == 'rewrite' then
    fixed_window_write(key, window, left, count)
  end
end

-- fixed_window_at_most: a fixed window as a charge of at_most.lua.

function algorithms.fixed_window(key, at, op, decide)
  local events, period = ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, moved, corrupt = fixed_window_read(key, window)
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  local cost = decide(at + 3, op, events - count, corrupt)
  if cost > 0 or moved then
    fixed_window_write(key, window, left, count + cost)
  end
end

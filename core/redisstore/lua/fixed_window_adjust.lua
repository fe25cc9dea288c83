-- fixed_window_adjust: a fixed window as a charge of adjust.lua.

function algorithms.fixed_window(key, at, op)
  local cost, period = ARGV[at] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local left = window + period - now
  local count, _, corrupt = fixed_window_read(key, window)
  at = at + 3

  if op == 'debit' then
    replaced = replaced + corrupt
    count = math.max(count, math.min(count + cost, MAX_COUNT))
    fixed_window_write(key, window, left, count)
  end

  local free = op == 'credit'
  if op == 'undo' then
    local time, age = ARGV[at] + 0, ARGV[at + 3] + 0
    at = at + 4
    local stepped_back = now - time < age
    free = time - time % period == window and not stepped_back
  end

  if free then
    count = math.max(0, count - cost)
    if count == 0 then
      redis.call('DEL', key)
    else
      fixed_window_write(key, window, left, count)
    end
  end
  local size = #reply
  reply[size + 1], reply[size + 2] = count, left
  return at
end

-- fixed_window: counts the events of the current window. Windows begin at the Unix epoch.
--
-- State      a string, big-endian: 7 bytes, the time at which the window began (us), and 5
--            bytes, or 7 from 2^40 on, the number of its events
-- Arguments  cost, events, period (us)
-- Reading    count; how long the window still lasts (us)
-- TTL        until the window ends

local function fixed_window_write(charge, count)
  local value = struct.pack(count < 1099511627776 and '>I7I5' or '>I7I7', charge.start, count)
  call('PSETEX', charge.key, format('%d', (charge.left + 1000) / 1000 + slack), value)
end

local function fixed_window_read(key, at)
  local cost, events, period = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
  local window = now - now % period
  local count, moved, corrupt = 0, false, 0
  local value = pcall('GET', key)
  if value then
    local start, n
    if type(value) == 'string' and (#value == 12 or #value == 14) then
      start, n = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
    end
    -- Text is a start above 2^53.
    if not start or start > MAX_INTEGER or n > MAX_INTEGER then
      corrupt = unreadable(value)
    elseif start > now then
      count, moved = n, n > 0 -- the clock stepped back
    elseif start >= window then
      count = n
    end
  end
  return {
    key = key, cost = cost, period = period, start = window, left = window + period - now,
    count = count, moved = moved, corrupt = corrupt, fits = count + cost <= events,
  }
end

local function fixed_window_spend(charge)
  fixed_window_write(charge, charge.count + charge.cost)
end

local function fixed_window_rewrite(charge)
  fixed_window_write(charge, charge.count)
end

local function fixed_window_report(charge, reply, size)
  reply[size + 1], reply[size + 2] = charge.count, charge.left
  return size + 2
end

algorithms.fixed_window = {
  arguments = 3,
  read = fixed_window_read,
  spend = fixed_window_spend,
  rewrite = fixed_window_rewrite,
  report = fixed_window_report,
}

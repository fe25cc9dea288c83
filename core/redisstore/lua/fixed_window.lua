-- fixed_window: counts the events of the current window. Windows begin at the Unix epoch.
--
-- State      a string, big-endian: 7 bytes with the time at which the window began (us), and 5
--            bytes (7 from 2^40 on) with the count of its events
-- Arguments  cost, events, period (us)
-- Reading    count; the time until the window ends (us)
-- TTL        until the window ends

-- Returns count; whether the state has to be written again even if no event is counted, because
-- the clock stepped back; and 1 if the state is unreadable, otherwise 0.
local function fixed_window_read(key, window)
  local value = redis.pcall('GET', key)
  if not value then
    return 0, false, 0
  end
  local start, count
  if type(value) == 'string' and (#value == 12 or #value == 14) then
    start, count = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
  end
  -- If value is text instead of a state, its first bytes decode to a start above 2^53.
  if not start or start > MAX_INTEGER or count > MAX_INTEGER then
    return 0, false, unreadable(value)
  end
  if start > now then -- the clock stepped back
    return count, count > 0, 0
  end
  return start >= window and count or 0, false, 0
end

local function fixed_window_write(key, window, left, count)
  local value = struct.pack(count < 1099511627776 and '>I7I5' or '>I7I7', window, count)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), value)
end

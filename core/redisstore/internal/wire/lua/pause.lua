-- pause: denies all events until an end, which a debit sets.
--
-- State      a string, big-endian: 7 bytes with the end (us), and 7 bytes with the time of the write (us)
-- Arguments  the length of the pause that a debit begins (us)
-- Reading    the time until the end (us), 0 if there is no pause
-- TTL        until the end
-- Inserted   MAX_INTEGER, MAX_PAUSE

-- Returns the time until the end; whether the state has to be written again, because the clock stepped back;
-- and 1 if the state is unreadable, otherwise 0.
local function pause_read(key)
  local value = redis.pcall('GET', key)
  if not value then
    return 0, false, 0
  end
  local stop, since
  if type(value) == 'string' and #value == 14 then
    stop, since = struct.unpack('>I7I7', value)
  end
  if not stop or stop > MAX_INTEGER or since >= stop or stop - since > MAX_PAUSE then
    return 0, false, unreadable(value)
  elseif since > now then
    return stop - since, true, 0
  end
  return math.max(0, stop - now), false, 0
end

local function pause_write(key, left)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), struct.pack('>I7I7', now + left, now))
end

-- A charge of take.lua and at_most.lua, which takes nothing. pause_adjust.lua replaces it.
function algorithms.pause(key, at, op, decide)
  local left, moved = pause_read(key)
  reply[#reply + 1] = left
  if decide(at + 1, op, left == 0, moved, 0, left == 0 and MAX_INTEGER or 0) == 'rewrite' then
    pause_write(key, left)
  end
end

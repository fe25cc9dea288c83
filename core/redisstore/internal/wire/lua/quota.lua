-- quota: counts the events of a period of the calendar, or of a fixed window.
--
-- State      a string, big-endian: 7 bytes with the end of the period (us), 7 bytes with its length (us),
--            and 6 bytes with the count of its events
-- Arguments  cost, events; two periods that follow each other: the start of the first, the boundary and
--            the end of the second (us); a bound of the length of any period (us). A fixed window:
--            its first two windows and its length; one from the first event: 0, 0, 0 and its length
-- Reading    count; the time until the period ends (us); the length of the period (us)
-- TTL        until the period ends
-- Inserted   MAX_INTEGER

-- Returns the time until the period ends; its length; count; whether the state has to be written again
-- even if no event is counted, because the clock stepped back; 1 if the state is unreadable,
-- otherwise 0; and the state, if it is readable. The period is that of the state until it ends, and otherwise that of the arguments. Before
-- and after their two periods, periods continue with the same lengths. A window from the first event
-- begins now.
local function quota_read(key, at)
  local start, stop, longest = ARGV[at + 2] + 0, ARGV[at + 3] + 0, ARGV[at + 5] + 0
  if now >= stop then
    start, stop = stop, ARGV[at + 4] + 0
  end
  local length = stop - start
  if length == 0 then
    start, length = now, longest
  end
  local left = length - (now - start) % length
  local value = redis.pcall('GET', key)
  if not value then
    return left, length, 0, false, 0
  end
  local own, count
  if type(value) == 'string' and (#value == 20 or #value == 26) then -- or that of rollover.lua
    stop, own, count = struct.unpack('>I7I7I6', value)
  end
  -- If value is text instead of a state, its first bytes decode to an end above 2^53.
  if not own or stop > MAX_INTEGER or own < 1 or own > longest then
    return left, length, 0, false, unreadable(value)
  end
  if stop <= now then
    return left, length, 0, false, 0, value
  elseif stop - now > longest then -- the clock stepped back
    return left, length, count, count > 0, 0, value
  end
  return stop - now, own, count, false, 0, value
end

local function quota_write(key, left, length, count)
  local value = struct.pack('>I7I7I6', now + left, length, count)
  redis.call('PSETEX', key, string.format('%d', (left + 1000) / 1000 + slack), value)
end

-- rollover: a quota whose limit grows by a part of the events that were left of the last period.
--
-- State      that of a quota, and 6 bytes with the rest: the events that are added to the limit
-- Arguments  those of a quota, with the whole limit; the most events that roll over; the part that
--            headroom leaves of the limit and the rest, as two integers of a fraction; the extra events
--            of a soft limit
-- Reading    that of a quota; the rest; 1 if the events of the period roll over, otherwise 0
-- TTL        until the period ends and, if events were counted, a bound of the length of the next one

INCLUDE quota

-- Returns the number of events that a key with a rest has in a period.
local function rollover_capacity(at, rest)
  local n, share, of = ARGV[at + 1] + rest, ARGV[at + 7] + 0, ARGV[at + 8] + 0
  if share < of then
    local low = n % of
    n = math.max(1, (n - low) / of * share + math.floor(low * share / of))
  end
  return n + ARGV[at + 9]
end

-- Returns the rest that a period with a rest of its own and a count leaves: none without events.
local function rollover_left(at, rest, count)
  if count == 0 then
    return 0
  end
  return math.min(ARGV[at + 6] + 0, math.max(0, ARGV[at + 1] + rest - count))
end

-- Returns the first five results of quota_read, the rest, and whether the events of the period roll over (1 or 0).
local function rollover_read(key, at)
  local left, length, count, moved, corrupt, value = quota_read(key, at)
  if not value then
    return left, length, count, moved, corrupt, 0, 0
  end
  local stop, _, counted = struct.unpack('>I7I7I6', value)
  local rolls, rest = #value == 26, 0
  if rolls then
    rest = math.min(ARGV[at + 6] + 0, (struct.unpack('>I6', value, 21)))
  end
  if stop > now then
    moved = count + rest > 0 and stop - now > ARGV[at + 5] + 0
    return left, length, count, moved, corrupt, rest, (rolls or moved) and 1 or 0
  end
  -- A state that ended before the present period began is that of an earlier period than the last one.
  rest = rolls and stop >= now + left - length and rollover_left(at, rest, counted) or 0
  return left, length, count, false, corrupt, rest, 0
end

local function rollover_write(key, at, left, length, count, rest)
  local value, ttl = struct.pack('>I7I7I6I6', now + left, length, count, rest), left
  if count > 0 then
    ttl = left + ARGV[at + 5]
  end
  redis.call('PSETEX', key, string.format('%d', (ttl + 1000) / 1000 + slack), value)
end

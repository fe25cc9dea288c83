-- fixed_window: counts the events of the current window, from the Unix epoch on.
--
-- State     a string, big-endian: 7 bytes, when the window began (us), and 5 bytes,
--           or 7 from 2^40 on, how many events it has
-- Arguments cost, events, period (us)
-- Reading   count; how long the window still lasts (us)
-- TTL       until the window ends

--- functions
local function window_write(key, start, left, count)
  local value = struct.pack(count < 1099511627776 and '>I7I5' or '>I7I7', start, count)
  call('PSETEX', key, format('%d', (left + 1000) / 1000 + slack), value)
end

--- read
local count_N, moved_N, corrupt_N = 0, false, 0
local events_N, period_N = ARGV[A_N + 2] + 0, ARGV[A_N + 3] + 0
local start_N = now - now % period_N
local left_N = start_N + period_N - now
do
  local value = pcall('GET', KEYS[I_N])
  if value then
    local start, count
    if type(value) == 'string' and (#value == 12 or #value == 14) then
      start, count = struct.unpack(#value == 12 and '>I7I5' or '>I7I7', value)
    end
    -- Text begins above 2^53, so it is never taken for a window.
    if not start or start >= 9007199254740992 or count >= 9007199254740992 then
      corrupt_N = 1
    elseif start > now then
      count_N, moved_N = count, count > 0 -- the clock stepped back
    elseif start >= start_N then
      count_N = count
    end
  end
end

--- fits count_N + ARGV[A_N + 1] <= events_N

--- spend
window_write(KEYS[I_N], start_N, left_N, count_N + ARGV[A_N + 1])

--- touch
if moved_N then
  window_write(KEYS[I_N], start_N, left_N, count_N)
end

--- debit
count_N = math.max(count_N, math.min(count_N + ARGV[A_N + 1], 281474976710655)) -- no more than 2^48 - 1
window_write(KEYS[I_N], start_N, left_N, count_N)

--- adjust
local function window_give(key, start, left, count, back)
  count = math.max(0, count - back)
  if count == 0 then
    call('DEL', key)
  else
    window_write(key, start, left, count)
  end
  return count
end

--- undo
-- Unless its window is over, or the clock has stepped back since.
if ARGV[M_N + 1] - ARGV[M_N + 1] % period_N == start_N and now - ARGV[M_N + 1] >= ARGV[M_N + 4] + 0 then
  count_N = window_give(KEYS[I_N], start_N, left_N, count_N, ARGV[A_N + 1])
end

--- credit
count_N = window_give(KEYS[I_N], start_N, left_N, count_N, ARGV[A_N + 1])

--- corrupt corrupt_N

--- report count_N, left_N

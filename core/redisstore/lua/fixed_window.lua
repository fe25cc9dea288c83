-- fixed_window: counts the events of the current window, from the Unix epoch on.
--
-- State     a string, "<start> <count>": when the window began (us) and how many
--           events it has
-- Arguments cost, events, period (us)
-- Reading   count; how long the window still lasts (us)
-- TTL       until the window ends

--- read
local count_N, moved_N, corrupt_N = 0, false, 0
local events_N, period_N = ARGV[A_N + 2] + 0, ARGV[A_N + 3] + 0
local start_N = now - now % period_N
do
  local value = pcall('GET', KEYS[I_N])
  if value then
    local start, count
    if type(value) == 'string' and #value < 40 then
      start, count = string.match(value, '^(%d+) (%d+)$')
      start, count = tonumber(start), tonumber(count)
    end
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
call('PSETEX', KEYS[I_N], format('%d', (start_N + period_N - now + 1000) / 1000 + slack), format('%d %d', start_N, count_N + ARGV[A_N + 1]))

--- touch
if moved_N then
  call('PSETEX', KEYS[I_N], format('%d', (start_N + period_N - now + 1000) / 1000 + slack), format('%d %d', start_N, count_N))
end

--- settle
count_N = count_N + ARGV[A_N + 1]
call('PSETEX', KEYS[I_N], format('%d', (start_N + period_N - now + 1000) / 1000 + slack), format('%d %d', start_N, count_N))

--- undo
if ARGV[M_N + 1] - ARGV[M_N + 1] % period_N == start_N then -- or its window is over
  count_N = math.max(0, count_N - ARGV[A_N + 1])
  if count_N == 0 then
    call('DEL', KEYS[I_N])
  else
    call('PSETEX', KEYS[I_N], format('%d', (start_N + period_N - now + 1000) / 1000 + slack), format('%d %d', start_N, count_N))
  end
end

--- give
count_N = math.max(0, count_N - ARGV[A_N + 1])
if count_N == 0 then
  call('DEL', KEYS[I_N])
else
  call('PSETEX', KEYS[I_N], format('%d', (start_N + period_N - now + 1000) / 1000 + slack), format('%d %d', start_N, count_N))
end

--- corrupt corrupt_N

--- report count_N, start_N + period_N - now

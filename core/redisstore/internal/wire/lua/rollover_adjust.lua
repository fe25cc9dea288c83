-- rollover_adjust: a quota with a rollover as a charge of adjust.lua. A state without events that count stays
-- as it is: that of the last period has the rest.
--
-- Inserted   MAX_COUNT

function algorithms.rollover(key, at, op)
  local cost, after = ARGV[at] + 0, at + 10
  local left, length, count, _, corrupt, rest, rolls = rollover_read(key, at)
  local free = op == 'credit'
  if op == 'undo' then
    local time, age = ARGV[after] + 0, ARGV[after + 3] + 0
    after = after + 4
    free = time >= now + left - length and now - time >= age
  end
  local counted = count
  if op == 'debit' then
    replaced = replaced + corrupt
    counted = math.max(count, math.min(count + cost, MAX_COUNT))
  elseif free then
    counted = math.max(0, count - cost)
  end
  if counted + rest == 0 and count > 0 then
    redis.call('DEL', key)
    left, length = quota_read(key, at) -- the period of the arguments
  elseif op == 'debit' or counted < count then
    rollover_write(key, at, left, length, counted, rest)
  end
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4], reply[size + 5] = counted, left, length, rest, rolls
  return after
end

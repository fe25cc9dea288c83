-- quota_adjust: a quota as a charge of adjust.lua.
--
-- Inserted   MAX_COUNT

function algorithms.quota(key, at, op)
  local cost, after = ARGV[at] + 0, at + 6
  local left, length, count, _, corrupt = quota_read(key, at)

  if op == 'debit' then
    replaced = replaced + corrupt
    count = math.max(count, math.min(count + cost, MAX_COUNT))
    quota_write(key, left, length, count)
  end

  local free = op == 'credit'
  if op == 'undo' then
    local time, age = ARGV[after] + 0, ARGV[after + 3] + 0
    after = after + 4
    local stepped_back = now - time < age
    free = time >= now + left - length and not stepped_back
  end

  if free then
    count = math.max(0, count - cost)
    if count == 0 then
      redis.call('DEL', key)
      left, length = quota_read(key, at) -- the period of the arguments
    else
      quota_write(key, left, length, count)
    end
  end
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = count, left, length
  return after
end

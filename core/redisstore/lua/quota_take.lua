-- quota_take: a quota as a charge of take.lua.

function algorithms.quota(key, at, op, decide)
  local cost, events = ARGV[at] + 0, ARGV[at + 1] + 0
  local left, length, count, moved, corrupt = quota_read(key, at)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = count, left, length
  local action = decide(at + 6, op, count + cost <= events, moved, corrupt)
  if action == 'spend' then
    quota_write(key, left, length, count + cost)
  elseif action == 'rewrite' then
    quota_write(key, left, length, count)
  end
end

-- quota_take: a quota as a charge of take.lua and at_most.lua.

function algorithms.quota(key, at, op, decide)
  local cost, events = ARGV[at] + 0, ARGV[at + 1] + 0
  local left, length, count, moved, corrupt = quota_read(key, at)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = count, left, length
  local action, taken = decide(at + 6, op, count + cost <= events, moved, corrupt, events - count)
  if action then
    quota_write(key, left, length, action == 'spend' and count + (taken or cost) or count)
  end
end

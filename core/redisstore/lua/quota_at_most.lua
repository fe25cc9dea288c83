-- quota_at_most: a quota as a charge of at_most.lua.

function algorithms.quota(key, at, op, decide)
  local left, length, count, moved, corrupt = quota_read(key, at)
  local size = #reply
  reply[size + 1], reply[size + 2], reply[size + 3] = count, left, length
  local cost = decide(at + 6, op, ARGV[at + 1] - count, corrupt)
  if cost > 0 or moved then
    quota_write(key, left, length, count + cost)
  end
end

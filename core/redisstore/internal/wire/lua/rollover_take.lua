-- rollover_take: a quota with a rollover as a charge of take.lua and at_most.lua.

function algorithms.rollover(key, at, op, decide)
  local left, length, count, moved, corrupt, rest, rolls = rollover_read(key, at)
  local cost, room, size = ARGV[at] + 0, rollover_capacity(at, rest) - count, #reply
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4], reply[size + 5] = count, left, length, rest, rolls
  local action, taken = decide(at + 10, op, cost <= room, moved, corrupt, room)
  if action then
    rollover_write(key, at, left, length, action == 'spend' and count + (taken or cost) or count, rest)
  end
end

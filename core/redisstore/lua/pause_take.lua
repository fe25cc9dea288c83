-- pause_take: a pause as a charge of take.lua. An event takes nothing.

function algorithms.pause(key, at, op, decide)
  local left, moved = pause_read(key)
  reply[#reply + 1] = left
  if decide(at + 1, op, left == 0, moved, 0) == 'rewrite' then
    pause_write(key, left)
  end
end

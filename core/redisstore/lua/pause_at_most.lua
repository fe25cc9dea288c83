-- pause_at_most: a pause as a charge of at_most.lua.
--
-- Inserted   MAX_INTEGER

function algorithms.pause(key, at, op, decide)
  local left, moved = pause_read(key)
  reply[#reply + 1] = left
  decide(at + 1, op, left == 0 and MAX_INTEGER or 0, 0)
  if moved then
    pause_write(key, left)
  end
end

-- pause_adjust: a pause as a charge of adjust.lua. The later end of two pauses holds, and op begin, a debit, leaves the end of
-- a pause.

function algorithms.pause(key, at, op)
  local left, moved, corrupt = pause_read(key)
  if op == 'debit' or op == 'begin' and (left == 0 or moved) then
    if op == 'debit' or left == 0 then
      left = math.max(left, ARGV[at] + 0)
    end
    if left > 0 then
      replaced = replaced + corrupt
      pause_write(key, left)
    end
  end
  reply[#reply + 1] = left
  return op == 'undo' and at + 5 or at + 1
end

-- sliding_log_at_most: a sliding log as a charge of at_most.lua.

function algorithms.sliding_log(key, at, op, decide)
  local place = #reply
  sliding_log(key, at, op, function(next, _, _, moved, corrupt)
    local cost, refused = decide(next, op, ARGV[at + 1] - reply[place + 1], corrupt)
    if refused then
      local size = #reply
      sliding_log(key, at, op, function() end, refused)
      reply[place + 4] = reply[size + 4]
      reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
    end
    if cost > 0 then
      return 'spend', cost
    end
    return moved and 'rewrite'
  end)
end

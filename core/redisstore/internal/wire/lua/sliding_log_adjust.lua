-- sliding_log_adjust: a sliding log as a charge of adjust.lua. Undo and credit remove only events of
-- the newest RECENT entries, so they read and write no more than these.
--
-- Inserted   MAX_COUNT

local RECENT = 1000
local _, log_cut, log_trim = log_functions()

-- Removes the n newest events.
local function log_credit(key, width, n)
  local rank, entries, member, number, through, size, older = 0, RECENT, nil, nil, nil, nil, nil
  repeat
    rank = rank - 1
    member = redis.call('ZRANGE', key, rank, rank)[1]
    number, through, _, _, _, size = log_open(member or '', width)
    if not number then
      return
    end
    _, older = log_open(member, width, math.max(0, size - entries))
    older = math.max(older, through - n)
    n, entries = n - through, entries - size
  until n <= 0 or entries <= 0
  log_cut(key, width, rank, '-1', { member }, older, math.huge, number)
end

-- Removes n events that were recorded at a time. Later events get lower numbers.
local function log_undo(key, width, n, time)
  local from = redis.call('ZCOUNT', key, string.format('%d', time), '+inf')
  if from > RECENT then -- a member has one entry or more
    return
  end
  local members = redis.call('ZRANGE', key, -from - 1, '-1')
  local first = #members - from + 1 -- 2 if a member precedes, which may have room
  local number, before, found, i = log_seek(members[first] or '', width, time - 1, 0)
  local entries = found == time and 1 - i or RECENT
  for j = first, #members do
    entries = entries + (#members[j] - 14) / (string.byte(members[j], 7) or 0)
  end
  if found ~= time or entries > RECENT then
    return
  end
  local _, through = log_open(members[first], width, i)
  n = math.min(n, through - before)
  if first == 2 then
    local prior, count = log_open(members[1], width)
    number, before = prior or number, before + (count or 0)
  end
  log_cut(key, width, -#members, '-1', members, before, before + n, number)
end

function algorithms.sliding_log(key, at, op)
  local place, after, count, moved = #reply, at + (op == 'undo' and 8 or 4), nil, nil
  sliding_log(key, at, op, function(_, _, _, stepped_back, corrupt)
    count, moved = reply[place + 1], stepped_back
    if op == 'debit' then
      replaced = replaced + corrupt
      return count < MAX_COUNT and 'spend'
    end
    return op == 'credit' and moved and 'rewrite'
  end, math.min(ARGV[at], MAX_COUNT))
  local period, width = ARGV[at + 2] + 0, ARGV[at + 3]
  -- If the clock has stepped back since an undone charge, its events cannot be told from other events.
  if count > 0 and (op == 'credit' or op == 'undo' and not moved and now - ARGV[at + 4] >= ARGV[at + 7] + 0) then
    log_trim(key, width, now - period)
    if op == 'credit' then
      log_credit(key, width, math.min(ARGV[at], count))
    else
      log_undo(key, width, ARGV[at] + 0, ARGV[at + 4] + 0)
    end
    redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
  end
  reply[place + 1], reply[place + 2], reply[place + 3], reply[place + 4] = nil, nil, nil, nil
  sliding_log(key, at, 'peek', function() end, 1)
  return after
end

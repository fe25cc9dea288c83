-- sliding_log_adjust: a sliding log as a charge of adjust.lua. Undo and credit remove only events of
-- the newest 1000 entries, so they read and write no more than these.

local log_recent = 1000
local _, _, log_trim, log_copy, log_replace = log_functions()

-- Removes the n newest events.
local function log_credit(key, width, n)
  local rank, entries, list = -1, log_recent, {}
  while n > 0 and entries > 0 do
    local member = redis.call('ZRANGE', key, rank, rank)[1]
    local number, through, _, _, _, size = log_open(member or '', width)
    if not number then
      return
    end
    local kept = math.max(0, through - n)
    if size > entries then
      local _, older = log_open(member, width, size - entries)
      kept = math.max(kept, older)
    end
    if kept > 0 then
      log_copy(list, member, width, 0, kept, number)
    end
    n, entries, rank = n - through, entries - size, rank - 1
  end
  log_replace(key, width, rank + 1, -1, list)
end

-- Removes n events that were recorded at the given time. Later events get lower numbers.
local function log_undo(key, width, n, time)
  local from = redis.call('ZCOUNT', key, string.format('%d', time), '+inf')
  if from > log_recent then
    return
  end
  local members = redis.call('ZRANGE', key, -from - 1, '-1')
  local first = #members - from + 1 -- the index after the preceding member, if there is one
  local number, before, found, i = log_seek(members[first] or '', width, time - 1, 0)
  if found ~= time then
    return
  end
  local counts, entries = {}, 1 - i
  for j = first, #members do
    local _, count, _, _, _, size = log_open(members[j], width)
    if not count then
      return
    end
    counts[j], entries = count, entries + size
  end
  if entries > log_recent then
    return
  end

  local list = { first > 1 and log_open(members[1], width) and members[1] or nil } -- it may have room
  local rank, _, through = -from - #list, log_open(members[first], width, i)
  number = log_copy(list, members[first], width, 0, before, number)
  number = log_copy(list, members[first], width, math.min(through, before + n), MAX_INTEGER, number)
  for j = first + 1, #members do
    local member = members[j]
    if list[1] and #list[#list] + #member - 14 <= 64 then
      number = log_copy(list, member, width, 0, MAX_INTEGER, number)
    else
      list[#list + 1] = struct.pack('>I6', number == 0 and 0 or (number - 1) % MAX_COUNT + 1) .. string.sub(member, 7)
      number = number + counts[j]
    end
  end
  log_replace(key, width, rank, -1, list)
end

function algorithms.sliding_log(key, at, op)
  local size, after, moved = #reply, at + 4, false
  sliding_log(key, at, op, function(_, _, _, stepped_back, corrupt)
    moved = stepped_back
    if op == 'debit' then
      outcome = outcome + corrupt
      return reply[size + 1] < MAX_COUNT and 'spend'
    end
    return op == 'credit' and moved and 'rewrite'
  end, math.min(ARGV[at], MAX_COUNT))
  if op == 'reset' then
    return after
  end
  local cost, period, width, count = ARGV[at] + 0, ARGV[at + 2] + 0, ARGV[at + 3], reply[size + 1]
  if count > 0 and op == 'credit' then
    log_trim(key, width, now - period, 200)
    log_credit(key, width, math.min(cost, count))
  elseif op == 'undo' then
    local time, age = ARGV[after] + 0, ARGV[after + 3] + 0
    after = after + 4
    -- If the clock has stepped back, the events cannot be told from other events.
    if count > 0 and not moved and now - time >= age then
      log_trim(key, width, now - period, 200)
      log_undo(key, width, cost, time)
    end
  end
  if op ~= 'debit' then -- the key may have been deleted and written again
    redis.call('PEXPIRE', key, string.format('%d', (period + 999) / 1000 + slack))
  end
  reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = nil, nil, nil, nil
  sliding_log(key, at, 'peek', function() end, 1)
  return after
end

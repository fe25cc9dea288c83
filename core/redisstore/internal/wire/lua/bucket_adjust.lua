-- bucket_adjust: a token bucket or leaky bucket as a charge of adjust.lua.
--
-- Reading  used (us, fraction); for a debit, the value before the op, which the receipt needs
-- Inserted HORIZON

-- Subtracts one span from another.
local function bucket_subtract(us, fraction, less, less_fraction, den)
  us, fraction = us - less, fraction - less_fraction
  if fraction < 0 then
    return us - 1, fraction + den
  end
  return us, fraction
end

function algorithms.bucket(key, at, op)
  local place, behind = #reply + 1, nil
  bucket(key, at, op, function(next, _, _, _, corrupt, used, fraction, after)
    behind = next
    if op == 'debit' then
      replaced = replaced + corrupt
      if after >= HORIZON then
        return 'rewrite', HORIZON, 0
      end
      return 'spend'
    elseif op == 'reset' then
      return
    end

    local back, back_fraction, den = ARGV[at] + 0, 0, ARGV[at + 4] + 0
    if den > 1 then
      back_fraction = ARGV[at + 5] + 0
    end
    if op ~= 'credit' then
      local time, before, before_fraction, age = ARGV[next] + 0, ARGV[next + 1] + 0, ARGV[next + 2] + 0, ARGV[next + 3] + 0
      behind = next + 4
      local counted, counted_fraction = bucket_subtract(HORIZON, 0, before, before_fraction, den) -- by a debit
      if counted < back or counted == back and counted_fraction < back_fraction then
        back, back_fraction = counted, counted_fraction
      end
      if op == 'undo_last' then
        -- Later events of a leaky bucket already have departure times, so a place in the queue can be
        -- freed only while it is the last.
        local others, others_fraction = bucket_subtract(now + used, fraction, back, back_fraction, den)
        if others ~= time + before or others_fraction ~= before_fraction then
          return
        end
      end
      -- Without the charge, the bucket would have become full earlier and stopped refilling. The undo
      -- therefore frees the cost minus the refill since that moment.
      local idle, idle_fraction = bucket_subtract(math.max(now - time, age), 0, before, before_fraction, den)
      if idle >= 0 then
        back, back_fraction = bucket_subtract(back, back_fraction, idle, idle_fraction, den)
      end
      if back < 0 then
        return
      end
    end

    local action = 'rewrite'
    used, fraction = bucket_subtract(used, fraction, back, back_fraction, den)
    if used < 0 or used == 0 and fraction == 0 then
      redis.call('DEL', key)
      used, fraction, action = 0, 0, nil
    end
    reply[place] = used
    if den > 1 then
      reply[place + 1] = fraction
    end
    return action, used, fraction
  end)
  return behind
end

-- bucket_read: reads the state of key under the arguments of bucket_arguments.lua. Sets used and fraction, the part in
-- use; moved, whether the clock stepped back; corrupt, 1 if the state was unreadable and otherwise 0; failed, the text
-- of an error or nil; after and after_fraction, the part in use after the cost; and fits, whether the cost fits.
-- Included by bucket.lua and bucket_alone.lua
-- Inserted   HORIZON, MAX_INTEGER

local used, fraction, moved, corrupt, failed = 0, 0, false, 0, nil
local value = redis.pcall('GET', key)
if value then
  local us, part, since = tonumber(value), 0, 0
  if not us and type(value) == 'string' and #value < 60 then
    us, part, since = string.match(value, '^(%d+) (%d+) ?(%d*)$')
    us, part, since = tonumber(us), tonumber(part), tonumber(since) or 0
  end
  -- "nan" and "inf" are numbers, but no multiples of 1.
  if not us or us % 1 ~= 0 or us > MAX_INTEGER or part > MAX_INTEGER
    or since ~= 0 and (since > us or us - since > HORIZON) then
    corrupt, failed = 1, failure(value)
  else
    if part >= den then -- written under another rate
      us, part = us + 1, 0
    end
    if since > now then -- the clock stepped back
      used, fraction, moved = us - since, part, true
    elseif us >= now then
      used, fraction = us - now, part
      if since == 0 and (used > full or used == full and fraction > full_fraction) then
        -- The clock stepped back or the limit was larger. The bucket counts as used up.
        used, fraction, moved = full, full_fraction, true
      end
    end
  end
end

local after, after_fraction = used + cost, fraction + cost_fraction
if after_fraction >= den then
  after, after_fraction = after + 1, after_fraction - den
end
-- An event of a leaky bucket must not have a longer delay than max_delay.
local fits = (after < most or after == most and after_fraction <= most_fraction)
  and (used < max_delay or used == max_delay and fraction == 0)

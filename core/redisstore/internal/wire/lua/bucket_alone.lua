-- bucket_alone: decisions about one bucket each, as most decisions are, in place of decisions.lua with take.lua and
-- bucket.lua. Its reply is theirs, and so are its arguments, without those that it knows: the number of charges, that of
-- the following arguments, and the library. Redis builds the functions and tables of a script for each call, so this
-- script has none of its own besides the reply.
-- Inserted   FIRST

local reply = { now, 0, nil, nil, nil, nil, nil, nil } -- the nils reserve memory
local number, replaced, at = 0, 0, FIRST
while ARGV[at] do
  local last, op = number + ARGV[at], ARGV[at + 1]
  at = at + 2
  INCLUDE bucket_arguments
  while number < last do
    number = number + 1
    local key = KEYS[number]
    INCLUDE bucket_read
    local place = #reply + 1
    reply[place], reply[place + 1] = 1, used
    if den > 1 then
      reply[place + 2] = fraction
    end
    local spends = fits and (op == 'spend' or op == 'shadow_spend')
    if not fits and (op == 'spend' or op == 'peek') then
      reply[place] = 0
    end
    if not failed and (spends or moved and not fits) then
      if spends then
        used, fraction, replaced = after, after_fraction, replaced + corrupt
      end
      INCLUDE bucket_write
    end
    if failed then
      reply[place], reply[place + 1], reply[place + 2] = failed, nil, nil
      if string.find(failed, 'READONLY', 1, true) then
        return { err = failed } -- see decisions.lua
      end
    end
  end
  at = at + size
end
reply[2] = replaced
return reply

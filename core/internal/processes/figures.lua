-- figures: adds the decisions of a process to those of its application.
--
-- KEYS[1]   a hash: of each rule, its decisions in a minute by result, as "0 12 3"
-- KEYS[2]   a sorted set: the hashes of denied keys, a space and the rule, by the number of denials in an hour
-- ARGV[1]   the number of rules
-- ARGV[2..] the name and the decisions of each rule; then the number of denials and the member of each key
--
-- Inserted: FIGURES_LIFETIME (ms), MAX_FIGURES, the number of rules, and MAX_DENIED, that of keys. Those with the fewest
-- denials are removed.

local rules = tonumber(ARGV[1])
if rules > 0 then
  local before, known = {}, 0
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    before[all[i]] = all[i + 1]
    known = known + 1
  end
  for i = 2, 2 * rules, 2 do
    if before[ARGV[i]] or known < MAX_FIGURES then
      if not before[ARGV[i]] then
        known = known + 1
      end
      local old, sums = {}, {}
      for n in string.gmatch(before[ARGV[i]] or '', '%d+') do
        old[#old + 1] = n
      end
      for n in string.gmatch(ARGV[i + 1], '%d+') do
        sums[#sums + 1] = string.format('%d', math.min(n + (old[#sums + 1] or 0), 1e15))
      end
      for k = #sums + 1, #old do
        sums[k] = old[k]
      end
      redis.call('HSET', KEYS[1], ARGV[i], table.concat(sums, ' '))
    end
  end
  redis.call('PEXPIRE', KEYS[1], FIGURES_LIFETIME)
end

if #ARGV > 1 + 2 * rules then
  for i = 2 + 2 * rules, #ARGV, 2 do
    redis.call('ZADD', KEYS[2], 'INCR', ARGV[i], ARGV[i + 1])
  end
  local n = redis.call('ZCARD', KEYS[2])
  if n > MAX_DENIED then
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, n - MAX_DENIED - 1)
  end
  redis.call('PEXPIRE', KEYS[2], FIGURES_LIFETIME)
end
return 1

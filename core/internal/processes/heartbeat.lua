-- heartbeat: counts the processes of an application, by groups with equal rules.
--
-- KEYS[1]   a hash: of each group, the number of its processes and the time of its last heartbeat, as "3 1700000000000"
-- KEYS[2]   a hash: of each group, its rules, a text of the caller
-- KEYS[3]   a sorted set: the processes of the caller's group by the time of their last heartbeat
-- KEYS[4]   the same for GROUP_OF_ALL, the group of processes that find no room for another one, or whose rules are too
--           many
-- KEYS[5]   a hash: of each process of the caller's group, its description
-- KEYS[6]   the same for GROUP_OF_ALL
-- KEYS[7]   a hash: of each published rule, the time when a process has said it, a space, and its description
-- KEYS[8..] the same as KEYS[3] and KEYS[5], in turns, for groups that the caller has left
-- ARGV[1]   the process
-- ARGV[2]   the rules of its group; empty if it ends
-- ARGV[3]   the name of its group
-- ARGV[4]   its description
-- ARGV[5]   the number of rules that it publishes
-- ARGV[6]   the number of rules that it has published and does not have any more
-- ARGV[7]   the time of its first heartbeat, or 0 in that
-- ARGV[8..] the names and descriptions of the former, the names of the latter, and the names of the groups of KEYS[8..]
--
-- Returns how many fields of KEYS[1] were removed because they were not well formed, the group that has the process
-- now, 1 if that group was not known or else 0, the time, the names of published rules that other processes have described
-- otherwise since ARGV[7], and the name and the number of processes of each group.
--
-- Inserted: LIFETIME and RULE_LIFETIME (ms), MAX_GROUPS, MAX_NAME, MAX_PUBLISHED, GROUP_OF_ALL, GROUP_OF_NONE.
-- Times are milliseconds of the server. A time that is further ahead than LIFETIME is as one that has passed: the clock
-- has stepped back.

INCLUDE clock
local counts, groups, damaged = {}, 0, 0

local function lives(at) return at > now - LIFETIME and at < now + LIFETIME end

local fields = redis.call('HGETALL', KEYS[1])
if #fields > 2 * (MAX_GROUPS + 2) then
  if ARGV[2] ~= '' then
    redis.call('DEL', KEYS[1], KEYS[2])
  end
  fields, damaged = {}, 1
end
for i = 1, #fields, 2 do
  local name = fields[i]
  local n, at = string.match(fields[i + 1], '^(%d+) (%d+)$')
  local formed = n and #n <= 15 and #at <= 15 and #name <= MAX_NAME
  if formed and lives(at + 0) then
    counts[name] = n + 0
    if name ~= GROUP_OF_ALL and name ~= GROUP_OF_NONE then
      groups = groups + 1
    end
  elseif ARGV[2] ~= '' then
    redis.call('HDEL', KEYS[1], name)
    redis.call('HDEL', KEYS[2], name)
  end
  if not formed then
    damaged = damaged + 1
  end
end

-- Counts the processes of a group again.
local function count(name, key, about)
  local before = redis.call('ZCOUNT', key, '-inf', string.format('%d', now - LIFETIME))
  if before > 0 then
    for _, process in ipairs(redis.call('ZRANGE', key, 0, before - 1)) do
      redis.call('HDEL', about, process)
    end
    redis.call('ZREMRANGEBYRANK', key, 0, before - 1)
  end
  local ahead = redis.call('ZCOUNT', key, string.format('%d', now + LIFETIME), '+inf')
  if ahead > 0 then
    for _, process in ipairs(redis.call('ZRANGE', key, -ahead, -1)) do
      redis.call('HDEL', about, process)
    end
    redis.call('ZREMRANGEBYRANK', key, -ahead, -1)
  end
  local n = redis.call('ZCARD', key)
  if n > 0 then
    redis.call('HSET', KEYS[1], name, string.format('%d %d', n, now))
    redis.call('PEXPIRE', KEYS[1], LIFETIME)
    counts[name] = n
  else
    redis.call('HDEL', KEYS[1], name)
    redis.call('HDEL', KEYS[2], name)
    counts[name] = nil
  end
end

local function leave(name, key, about)
  redis.call('HDEL', about, ARGV[1])
  if redis.call('ZREM', key, ARGV[1]) > 0 then
    count(name, key, about)
  end
end

local group, key, about, fresh = ARGV[3], KEYS[3], KEYS[5], 0
local differing = {}
local published, removed = tonumber(ARGV[5]), tonumber(ARGV[6])
local since = tonumber(ARGV[7])
local left = 7 + 2 * published + removed
for i = 8, #KEYS, 2 do
  left = left + 1
  leave(ARGV[left], KEYS[i], KEYS[i + 1])
end
if ARGV[2] == '' then
  leave(group, key, about)
  leave(GROUP_OF_ALL, KEYS[4], KEYS[6])
else
  if not counts[group] and groups >= MAX_GROUPS and group ~= GROUP_OF_NONE then
    leave(group, key, about)
    group, key, about = GROUP_OF_ALL, KEYS[4], KEYS[6]
  end
  if not counts[group] then
    fresh = 1
  end
  redis.call('ZADD', key, string.format('%d', now), ARGV[1])
  redis.call('HSET', about, ARGV[1], ARGV[4])
  if group ~= GROUP_OF_ALL then
    redis.call('HSET', KEYS[2], group, ARGV[2])
    leave(GROUP_OF_ALL, KEYS[4], KEYS[6])
  end
  count(group, key, about)
  for _, written in ipairs({ KEYS[2], key, about }) do
    redis.call('PEXPIRE', written, LIFETIME)
  end
end

for i = 8 + 2 * published, 7 + 2 * published + removed do
  redis.call('HDEL', KEYS[7], ARGV[i])
end
if published > 0 then
  local own, rules, others = {}, {}, {}
  for i = 8, 6 + 2 * published, 2 do
    own[ARGV[i]] = true
    rules[string.match(ARGV[i], '^(.*) ')] = true
  end
  local all = redis.call('HGETALL', KEYS[7])
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
    if at <= now - RULE_LIFETIME or at >= now + RULE_LIFETIME then
      redis.call('HDEL', KEYS[7], all[i])
    elseif not own[all[i]] then
      others[#others + 1] = { at, all[i] }
      local rule = string.match(all[i], '^(.*) ')
      if rule and rules[rule] and since > 0 and at >= since then
        differing[#differing + 1] = rule
        rules[rule] = nil
      end
    end
  end
  if published + #others > MAX_PUBLISHED then
    table.sort(others, function(a, b) return a[1] < b[1] end)
    for i = 1, published + #others - MAX_PUBLISHED do
      redis.call('HDEL', KEYS[7], others[i][2])
    end
  end
  for i = 8, 6 + 2 * published, 2 do
    redis.call('HSET', KEYS[7], ARGV[i], string.format('%d ', now) .. ARGV[i + 1])
  end
  redis.call('PEXPIRE', KEYS[7], RULE_LIFETIME)
end

local reply = { damaged, group, fresh, now, differing }
for name, n in pairs(counts) do
  reply[#reply + 1] = name
  reply[#reply + 1] = n
end
return reply

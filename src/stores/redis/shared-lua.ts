// Lua functions that the scripts of the Redis store share. See scripts.ts for the keys.

/** Starts with the positions of a commit's fields in the arguments. Entries follow, two arguments for each entry. */
export const shared = `
local base = KEYS[1]
local call = redis.call
local ID, VERSION, TOUCHED, HEADING, LANE, SNAPSHOT, STATE, COUNT, SEEN = 0, 1, 2, 3, 4, 5, 6, 7, 8
local FIRST = 9

local function text(number) return string.format('%.0f', number) end

local function after(a, at) return at + FIRST + 2 * tonumber(a[at + COUNT]) end

-- A number above all that the bucket has given out. Openings follow the time of day, for an order among buckets.
local function tick(opening)
  if not opening then return text(call('INCR', base .. ':z')) end
  local time = call('TIME')
  local last = tonumber(call('GET', base .. ':z') or '0')
  local now = text(math.max(last + 1, time[1] * 1000000 + time[2]))
  call('SET', base .. ':z', now)
  return now
end

local function forget(id, lane)
  call('ZREM', base .. ':a', id)
  call('ZREM', base .. ':d', id)
  if lane then
    call('ZREM', base .. ':' .. lane, id)
  else
    for _, environment in ipairs(call('SMEMBERS', base .. ':v')) do
      call('ZREM', base .. ':o:' .. environment, id)
      call('ZREM', base .. ':x:' .. environment, id)
    end
  end
end

-- Takes sessions that have expired out of the indexes. Whether some are left.
local function sweep(most)
  local due = base .. ':d'
  if call('EXISTS', due) == 0 then return false end
  local time = call('TIME')
  local now = text(time[1] * 1000 + math.floor(time[2] / 1000))
  -- In the very millisecond of its deadline a key is still there.
  local ids = call('ZRANGEBYSCORE', due, '-inf', '(' .. now, 'LIMIT', 0, most)
  for _, id in ipairs(ids) do
    if call('EXISTS', base .. ':s:' .. id) == 1 then call('ZREM', due, id) else forget(id) end
  end
  return #ids == most
end

-- Gives all of a session the life that its writer is set to: a part that lives longer would be found in the next one.
local function renew(id, expire)
  local s = base .. ':s:' .. id
  if expire == '0' then
    if call('HDEL', s, 'd') == 0 then return end
    for _, kind in ipairs({'s', 'e', 'k', 'p', 'q'}) do call('PERSIST', base .. ':' .. kind .. ':' .. id) end
    call('ZREM', base .. ':d', id)
    return
  end
  call('HSET', s, 'd', 1)
  local time = call('TIME')
  local deadline = text(time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(expire))
  for _, kind in ipairs({'s', 'e', 'k', 'p', 'q'}) do
    call('PEXPIREAT', base .. ':' .. kind .. ':' .. id, deadline)
  end
  call('ZADD', base .. ':d', deadline, id)
end

-- Whether a log ends in the mark that a writer saw. A mark of another version was left behind by a process of version 0.1.
local function isSeen(seen, version, touched, mark)
  if seen == '' then return true end
  if mark and string.sub(mark, 1, #version + 1) == version .. ':' then return mark == version .. ':' .. seen end
  return seen == '@' .. touched
end

-- An error if a part of a session is missing: evicted, or deleted by someone else. Nothing may be committed on top of it.
-- The note of the newest entry is there if the mark is of its version: version 0.1 wrote neither.
local function lost(id, version, mark)
  local part
  if call('LLEN', base .. ':e:' .. id) ~= tonumber(version) then
    part = 'entries'
  elseif mark and string.sub(mark, 1, #version + 1) == version .. ':'
    and call('HEXISTS', base .. ':k:' .. id, '@' .. version) == 0 then
    part = 'keys'
  elseif call('EXISTS', base .. ':p:' .. id) ~= call('EXISTS', base .. ':q:' .. id) then
    part = 'snapshots'
  end
  return part and redis.error_reply('HOLDFASTLOST the ' .. part .. ' of session ' .. id)
end

-- What the answer to a commit would be; then its lane, or the intent that is in the way.
local function judge(a, at)
  local id = a[at + ID]
  local s = call('HMGET', base .. ':s:' .. id, 'v', 'l', 'i', 't', 'c')
  if s[3] then return 'intent', s[3] end
  if s[1] then
    local missing = lost(id, s[1], s[5])
    if missing then return 'lost', missing end
    for place = at + FIRST, after(a, at) - 1, 2 do
      local key = string.match(a[place], '=.*')
      if key and call('HEXISTS', base .. ':k:' .. id, key) == 1 then return 'duplicate' end
    end
  end
  if (s[1] or '0') ~= a[at + VERSION] then return 'conflict' end
  -- After a failover the log may be another one of the same length.
  local seen = string.match(a[at + SEEN], '^[^ ]*')
  if s[1] and not isSeen(seen, s[1], s[4], s[5]) then return 'conflict' end
  return 'ok', s[2]
end

-- What the answer to all commits from a place on would be; their lanes; otherwise the session and intent in the way.
local function judgeAll(a, at)
  local answer, lanes = 'ok', {}
  while at <= #a do
    local verdict, lane = judge(a, at)
    if verdict == 'intent' then return {a[at], lane} end
    if verdict == 'lost' then return lane end
    if verdict == 'duplicate' then return 'duplicate' end
    if verdict == 'conflict' then answer = 'conflict' end
    lanes[at] = lane
    at = after(a, at)
  end
  return answer, lanes
end

-- \`place\` is that in the order of opening.
local function write(a, at, lane, stamp, place, expire)
  local id, version = a[at + ID], tonumber(a[at + VERSION])
  local s, e, k = base .. ':s:' .. id, base .. ':e:' .. id, base .. ':k:' .. id
  if version == 0 then
    if call('ZSCORE', base .. ':d', id) then forget(id) end
    call('UNLINK', e, k, base .. ':p:' .. id, base .. ':q:' .. id)
  end
  for place = at + FIRST, after(a, at) - 1, 2 do
    version = version + 1
    call('RPUSH', e, a[place + 1])
    call('HSET', k, '@' .. version, a[place])
    local key = string.match(a[place], '=.*')
    if key then call('HSET', k, key, version) end
  end
  if a[at + HEADING] == '' then
    call('HSET', s, 'v', version, 't', a[at + TOUCHED], 'm', stamp)
  else
    local new = a[at + LANE]
    call('HSET', s, 'v', version, 't', a[at + TOUCHED], 'm', stamp, 'h', a[at + HEADING], 'l', new)
    call('SADD', base .. ':v', string.sub(new, 3))
    if lane and lane ~= new then call('ZREM', base .. ':' .. lane, id) end
    lane = new
    if a[at + VERSION] == '0' then
      call('HSET', s, 'n', place, 'o', stamp)
      call('ZADD', base .. ':a', place, id)
    end
  end
  call('ZADD', base .. ':' .. lane, a[at + TOUCHED], id)
  local mark = string.match(a[at + SEEN], ' (.+)')
  if mark then call('HSET', s, 'c', version .. ':' .. mark) end
  if a[at + SNAPSHOT] ~= '' then
    call('HSETNX', base .. ':p:' .. id, a[at + SNAPSHOT], a[at + STATE])
    call('ZADD', base .. ':q:' .. id, a[at + SNAPSHOT], a[at + SNAPSHOT])
  end
  renew(id, expire)
end

-- Entries after one version up to another, as many as fit into one answer: note, U+0001, space and body.
local function entries(id, from, to, most)
  local found, bytes = {}, 0
  while from < to and #found < 1024 do
    local last, fields = math.min(from + 32, to), {}
    for version = from + 1, last do fields[version - from] = '@' .. version end
    local notes = call('HMGET', base .. ':k:' .. id, unpack(fields))
    for place, body in ipairs(call('LRANGE', base .. ':e:' .. id, from, last - 1)) do
      found[#found + 1] = (notes[place] or '') .. '\\1 ' .. body
      bytes = bytes + #body
      if bytes >= most then return found end
    end
    from = last
  end
  return found
end

-- Whether one text is behind another in the order of bytes, as it is in indexes.
local function behind(one, other)
  for place = 1, math.min(#one, #other) do
    local a, b = string.byte(one, place), string.byte(other, place)
    if a ~= b then return a > b end
  end
  return #one > #other
end
`;

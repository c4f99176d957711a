// The Lua scripts of the Redis store. Each is atomic. Their comments are: arguments → result.
//
// KEYS[1] is the name of a bucket, `prefix:{number}`. Every key of a script starts with it, so all are in one slot of a
// Cluster. The keys of a session are these.
//   :s:  a hash. v is the version, t the time of the newest entry, h the heading, l the lane.
//        n is the place in the order of opening, o the clock at its opening, m the clock at its last commit.
//        c is the mark as `version:mark`, unless it is the time. i is an intent, d is set if the session expires.
//   :e:  the list of bodies.
//   :k:  a hash. `=KEY` is a version, `@VERSION` is the time and the key as `time=KEY`.
//   :p:  snapshots. Their versions are in :q:.
//   :i:  the prepared commit of an intent.
// The keys of a bucket are these.
//   :z   its clock.
//   :a   all sessions, in the order of their opening.
//   :o:ENVIRONMENT  open sessions, by the time of their newest entry. :x:ENVIRONMENT has the ended sessions.
//   :v   environments.
//   :d   deadlines of sessions that expire.
//   :w   sessions with an intent. The intents are in :t:.
//
// Redis checks its memory only before the first write of a script, and only if that write needs memory. So scripts that
// may be refused begin with such a write, and scripts that must not be refused begin with a write that needs none.
import { createHash } from "node:crypto";
import { shared } from "./shared-lua.ts";

const sources = {
  /** Format, number of buckets → both as stored. They are written only once. */
  meta: `
    redis.call('HSETNX', KEYS[1], 'format', ARGV[1])
    redis.call('HSETNX', KEYS[1], 'buckets', ARGV[2])
    return redis.call('HMGET', KEYS[1], 'format', 'buckets')`,

  /** Expire, commits → the answer, or {session, intent} if an intent blocks the commits. */
  append: `
    local expire, at = ARGV[1], 2
    local answer, lanes = judgeAll(ARGV, at)
    if answer ~= 'ok' then return answer end
    while at <= #ARGV do
      local stamp = tick(ARGV[at + VERSION] == '0')
      write(ARGV, at, lanes[at], stamp, stamp, expire)
      at = after(ARGV, at)
    end
    if expire ~= '0' then sweep(3) end
    return answer`,

  /**
   * Session, version, touched, seen, key, body, mark → "ok" or "duplicate"; false if only `append` can handle it.
   * Nearly every commit is one entry and nothing else. With this script it takes two thirds of the time.
   */
  one: `
    local base, id, version, seen, key, call = KEYS[1], ARGV[1], ARGV[2], ARGV[4], ARGV[5], redis.call
    local hash = base .. ':s:' .. id
    local s = call('HMGET', hash, 'v', 'l', 'i', 't', 'd', 'c')
    if s[1] ~= version or s[3] or s[5] then return false end
    if seen ~= '' and s[6] ~= version .. ':' .. seen and (s[6] or '@' .. s[4] ~= seen) then return false end
    local keys = base .. ':k:' .. id
    local found = call('HMGET', keys, '@' .. version, key)
    if s[6] and not found[1] then return false end
    if key ~= '' and found[2] then return 'duplicate' end
    local entries = base .. ':e:' .. id
    version = version + 1
    if call('RPUSH', entries, ARGV[6]) ~= version then
      call('RPOP', entries)
      return false
    end
    call('HSET', keys, '@' .. version, ARGV[3] .. key)
    if key ~= '' then call('HSET', keys, key, version) end
    call('HSET', hash, 'v', version, 't', ARGV[3], 'm', call('INCR', base .. ':z'))
    if ARGV[7] ~= '' then call('HSET', hash, 'c', version .. ':' .. ARGV[7]) end
    call('ZADD', base .. ':' .. s[2], ARGV[3], id)
    return 'ok'`,

  /**
   * Session, after, up to, limit, bytes, whether from a snapshot → {intent, version, place, touched, mark, entries, the
   * snapshot's version, snapshot}.
   */
  read: `
    local id, from = ARGV[1], tonumber(ARGV[2])
    local s = call('HMGET', base .. ':s:' .. id, 'i', 'v', 'n', 't', 'c')
    if not s[2] then return {s[1], false} end
    local missing = lost(id, s[2], s[5])
    if missing then return missing end
    local to, newest, state = math.min(tonumber(s[2]), tonumber(ARGV[3])), false, false
    if ARGV[6] == '1' then
      newest = call('ZREVRANGEBYSCORE', base .. ':q:' .. id, text(to), '(' .. ARGV[2], 'LIMIT', 0, 1)[1] or false
      state = newest and call('HGET', base .. ':p:' .. id, newest)
      if state then from = tonumber(newest) end
    end
    to = math.min(to, from + tonumber(ARGV[4]))
    return {s[1], s[2], s[3], s[4], s[5], entries(id, from, to, tonumber(ARGV[5])), state and newest, state}`,

  /** Session, key → {intent, version, entry}. */
  find: `
    local s = call('HMGET', base .. ':s:' .. ARGV[1], 'i', 'v', 'c')
    local missing = s[2] and lost(ARGV[1], s[2], s[3])
    if missing then return missing end
    local version = s[2] and call('HGET', base .. ':k:' .. ARGV[1], ARGV[2])
    if not version then return {s[1], false} end
    version = tonumber(version)
    return {s[1], text(version), entries(ARGV[1], version - 1, version, 1)[1]}`,

  /** Makes a write. A replica that has this write has all earlier writes. */
  mark: `return call('INCR', base .. ':z')`,

  /** Session, and optionally its version and mark → 1 if it was deleted, 0 if not, or the intent that blocks it. */
  delete: `
    local id, version, seen = ARGV[1], ARGV[2], ARGV[3]
    local s = call('HMGET', base .. ':s:' .. id, 'v', 'l', 'i', 't', 'c')
    if s[3] then return s[3] end
    if not s[1] or (version ~= '' and s[1] ~= version) or not isSeen(seen, s[1], s[4], s[5]) then return 0 end
    for _, kind in ipairs({'s', 'e', 'k', 'p', 'q'}) do call('UNLINK', base .. ':' .. kind .. ':' .. id) end
    forget(id, s[2])
    local environment = string.sub(s[2], 3)
    if call('EXISTS', base .. ':o:' .. environment, base .. ':x:' .. environment) == 0 then
      call('SREM', base .. ':v', environment)
    end
    return 1`,

  /** Environment → {open sessions, whether expired sessions remain, sessions with an intent}. */
  count: `
    local more = sweep(1000)
    return {call('ZCARD', base .. ':o:' .. ARGV[1]), more and 1 or 0, call('SMEMBERS', base .. ':w')}`,

  /** Minimum for the clock → {clock, whether expired sessions remain, environments, sessions with an intent}. */
  begin: `
    local more = sweep(1000)
    local clock = call('GET', base .. ':z') or '0'
    if tonumber(clock) < tonumber(ARGV[1]) then
      clock = ARGV[1]
      call('SET', base .. ':z', clock)
    end
    return {clock, more and 1 or 0, call('SMEMBERS', base .. ':v'), call('SMEMBERS', base .. ':w')}`,

  /**
   * Index, first score, last score, limit, "=" or "", session → ids and their scores. With "=", the ids with the first
   * score must be behind the session.
   */
  page: `
    local found, from, size, offset = {}, ARGV[2], tonumber(ARGV[4]), 0
    repeat
      local part = call('ZRANGEBYSCORE', base .. ':' .. ARGV[1], from, ARGV[3], 'WITHSCORES', 'LIMIT', offset, size)
      for at = 1, #part, 2 do
        if #found < 2 * size and (ARGV[5] == '' or part[at + 1] ~= from or behind(part[at], ARGV[6])) then
          found[#found + 1] = part[at]
          found[#found + 1] = part[at + 1]
        end
      end
      offset = offset + size
    until #part < 2 * size or #found == 2 * size
    return found`,

  /** Sessions → for each {version, touched, heading, place, opened, written, intent, mark}. */
  rows: `
    local rows = {}
    for at, id in ipairs(ARGV) do rows[at] = call('HMGET', base .. ':s:' .. id, 'v', 't', 'h', 'n', 'o', 'm', 'i', 'c') end
    return rows`,

  /** Commits → the answer of `append`, without changes. */
  judge: `return (judgeAll(ARGV, 1))`,

  /** Intent, sessions → records the intent as pending. The record expires; without it, the intent has no effect. */
  intend: `
    call('HSET', base .. ':t:' .. ARGV[1], 'state', 'pending', 'sessions', ARGV[2])
    call('PEXPIRE', base .. ':t:' .. ARGV[1], 60000)
    return 1`,

  /** The intent's name in sessions, expire, commits → the answer of `append`, and stores the commits as prepared. */
  prepare: `
    local at = 3
    local answer = judgeAll(ARGV, at)
    if answer ~= 'ok' then return answer end
    while at <= #ARGV do
      local id, last = ARGV[at], after(ARGV, at)
      local commit = {}
      for place = at, last - 1 do commit[#commit + 1] = ARGV[place] end
      call('SET', base .. ':i:' .. id, cmsgpack.pack(commit))
      call('HSET', base .. ':s:' .. id, 'i', ARGV[1])
      call('SADD', base .. ':w', id)
      -- Not to expire between this and its end.
      if ARGV[at + VERSION] ~= '0' then
        renew(id, ARGV[2] == '0' and '0' or text(tonumber(ARGV[2]) + 60000))
      end
      at = last
    end
    return 'ok'`,

  /**
   * Intent, number of sessions → its stamp, if it was pending and is committed now. From this moment, all its commits
   * are stored.
   */
  commit: `
    local key = base .. ':t:' .. ARGV[1]
    if call('HGET', key, 'state') ~= 'pending' then return false end
    local stamp = tick(true)
    -- The places of its sessions.
    call('INCRBY', base .. ':z', ARGV[2])
    call('HSET', key, 'state', stamp)
    call('PERSIST', key)
    return stamp`,

  /** Intent → {state, sessions}. */
  state: `return call('HMGET', base .. ':t:' .. ARGV[1], 'state', 'sessions')`,

  /** Intent → 1 if it was pending and was removed. */
  abort: `
    local key = base .. ':t:' .. ARGV[1]
    if call('HGET', key, 'state') ~= 'pending' then return 0 end
    return call('DEL', key)`,

  /** Intent → deletes it, after every log has its commits. */
  done: `return call('DEL', base .. ':t:' .. ARGV[1])`,

  /**
   * The intent's name in sessions, its stamp, expire, sessions and their numbers → writes the prepared commits, once.
   */
  apply: `
    for at = 4, #ARGV, 2 do
      local id, place = ARGV[at], text(tonumber(ARGV[2]) + tonumber(ARGV[at + 1]))
      local s = call('HMGET', base .. ':s:' .. id, 'v', 'l', 'i')
      if s[3] == ARGV[1] then
        call('HDEL', base .. ':s:' .. id, 'i')
        call('SREM', base .. ':w', id)
        local commit = call('GET', base .. ':i:' .. id)
        call('DEL', base .. ':i:' .. id)
        if tonumber(call('GET', base .. ':z') or '0') < tonumber(place) then call('SET', base .. ':z', place) end
        commit = commit and cmsgpack.unpack(commit)
        if commit and (s[1] or '0') == commit[1 + VERSION] then write(commit, 1, s[2], ARGV[2], place, ARGV[3]) end
      end
    end
    return 1`,

  /** The intent's name in sessions, sessions → drops the prepared commits. */
  drop: `
    for at = 2, #ARGV do
      local id = ARGV[at]
      if call('HGET', base .. ':s:' .. id, 'i') == ARGV[1] then
        call('HDEL', base .. ':s:' .. id, 'i')
        call('SREM', base .. ':w', id)
        call('DEL', base .. ':i:' .. id)
      end
    end
    return 1`,
};

export type ScriptName = keyof typeof sources;

/** Scripts without the shared functions, whose definition takes time in every call. */
const alone = new Set(["meta", "one"]);

export const scripts = Object.fromEntries(
  Object.entries(sources).map(([name, lua]) => [name, alone.has(name) ? lua : `${shared}${lua}`]),
) as Record<ScriptName, string>;

/** The digest by which a server knows a script. */
export const hashes = Object.fromEntries(
  Object.entries(scripts).map(([name, lua]) => [name, createHash("sha1").update(lua).digest("hex")]),
) as Record<ScriptName, string>;

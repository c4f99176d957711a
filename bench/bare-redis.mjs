// What the bare Redis client can do with the bytes of a commit: one call of the smallest script that appends conditionally.
import { Redis } from "ioredis";
import { hashOfMark, markAfter } from "../dist/stores/front/mark.js";
import { scripts } from "../dist/stores/redis/scripts.js";
import { nextEntry } from "./commits.mjs";

/** Version, body and key: the version must be the length of the list, and no key may come twice. */
const smallest = `
  if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 'conflict' end
  if redis.call('HSETNX', KEYS[2], ARGV[3], ARGV[1]) == 0 then return 'duplicate' end
  redis.call('RPUSH', KEYS[1], ARGV[2])
  return 'ok'`;

/** @typedef {import("./commits.mjs").Log} Log */

/** @param {string} url */
export async function bareRedis(url) {
  const client = new Redis(url, { lazyConnect: true });
  await client.connect();
  const hash = String(await client.script("LOAD", smallest));
  const ours = String(await client.script("LOAD", scripts.one));

  /** @param {Log} log @returns {[string, number, ...(string | number)[]]} */
  const callOf = (log) => {
    const { body, key } = nextEntry(log);
    return [hash, 2, `bare:{${log.id}}:e`, `bare:{${log.id}}:k`, log.version, body, key];
  };
  const settle = (/** @type {Log} */ log, /** @type {unknown} */ answer) => {
    if (answer !== "ok") throw new Error(`a bare commit to ${log.id} was answered with ${answer}`);
    log.version++;
  };
  return {
    ping: () => client.ping(),
    async commit(/** @type {Log} */ log) {
      settle(log, await client.evalsha(...callOf(log)));
    },
    /** All of them in one pipeline. */
    async commitAll(/** @type {Log[]} */ logs) {
      const pipeline = client.pipeline();
      for (const log of logs) pipeline.evalsha(...callOf(log));
      const answers = (await pipeline.exec()) ?? [];
      for (const [index, log] of logs.entries()) settle(log, answers[index]?.[1]);
    },
    /** The store's own script, for a session that the store has. */
    async commitByOurs(/** @type {Log} */ log) {
      const entry = nextEntry(log);
      const mark = markAfter(log.mark, [entry]);
      const [seen, chain] = [hashOfMark(log.mark), hashOfMark(mark)];
      const args = [log.id, log.version, log.at, seen ?? "", `=${entry.key}`, entry.body, chain ?? ""];
      settle(log, await client.evalsha(ours, 1, "holdfast:{0}", ...args));
      log.mark = mark;
    },
    close: () => client.disconnect(),
  };
}

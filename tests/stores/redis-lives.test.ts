// Sessions of the Redis store whose `expire` is turned off: a session goes completely or not at all, and its next life
// starts empty.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type RedisServer, startRedis } from "../../tools/servers/redis.mjs";

let redis: RedisServer;
const stores: Store[] = [];
beforeAll(async () => void (redis = await startRedis()));
afterAll(async () => {
  for (const store of stores) await store.close();
  await redis.stop();
});

function open(prefix: string, expire: number): Store {
  const store = redisStore({ url: redis.url, prefix, expire });
  stores.push(store);
  return store;
}

function commitOf(session: string, version: number, key?: string): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body: `"${version + 1}"`, at: version, ...(key && { key }) }], ...heading };
}

/** The time to live of the sessions' keys in milliseconds; -1 for ever. */
async function livesOf(prefix: string): Promise<number[]> {
  const keys = (await redis.command("keys", `${prefix}:*:[sekpq]:*`)).split("\n");
  return Promise.all(keys.map(async (key) => Number(await redis.command("pttl", key))));
}

const changes: [string, (store: Store) => Promise<unknown>][] = [
  ["an entry", (store) => store.append(commitOf("a", 1, "k"))],
  ["a snapshot", (store) => store.append({ ...commitOf("a", 1, "k"), snapshot: { version: 1, body: "old" } })],
  ["a commit to several", (store) => store.append(commitOf("a", 1, "k"), commitOf("b", 0))],
];
for (const buckets of [1, 16]) {
  test.each(changes)(`%s, by a store without expiry, keeps all of it: ${buckets} buckets`, async (what, change) => {
    const prefix = `${what.replaceAll(" ", "-")}-${buckets}`;
    await redis.command("hset", `${prefix}:meta`, "format", 1, "buckets", buckets);
    const [mortal, immortal] = [open(prefix, 60), open(prefix, 0)];
    expect(await mortal.append(commitOf("a", 0))).toBe("ok");
    expect((await livesOf(prefix)).every((life) => life > 0)).toBe(true);
    expect(await change(immortal)).toBe("ok");
    expect(new Set(await livesOf(prefix))).toEqual(new Set([-1]));
    expect(await mortal.append({ ...commitOf("a", 2), snapshot: { version: 2, body: "new" } })).toBe("ok");
    expect((await livesOf(prefix)).filter((life) => life > 0).length, "s, e, k, p, q").toBeGreaterThanOrEqual(5);
  });
}

test("remains of one life are not found in the next", async () => {
  const store = open("left", 0);
  await store.append({ ...commitOf("a", 0, "k"), snapshot: { version: 1, body: "old" } });
  // As a server that evicts keys, or the expiry of an older Holdfast, would leave it.
  await redis.command("del", "left:{0}:s:a");
  expect(await store.find("a", "k")).toBeUndefined();
  expect(await store.append(commitOf("a", 0))).toBe("ok");
  const loaded = await store.load("a");
  expect(loaded).toMatchObject({ version: 1, entries: [{ version: 1, body: '"1"' }] });
  expect(loaded).not.toHaveProperty("snapshot");
  expect(await store.append(commitOf("a", 1, "k"))).toBe("ok");
});

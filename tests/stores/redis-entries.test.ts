// The driver of the Redis store returns the time and key of each entry, and the mark of each log. Version 0.1 wrote logs
// without notes and marks.
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressOf } from "../../src/stores/redis/address.ts";
import { connectTo } from "../../src/stores/redis/connection.ts";
import { redisDriver } from "../../src/stores/redis/driver.ts";
import { type RedisServer, startRedis } from "../../tools/servers/redis.mjs";

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
afterAll(() => redis.stop());

test("returns the time and key of entries with and without notes", async () => {
  const driver = redisDriver(connectTo(addressOf({ url: redis.url })));
  const call = { until: performance.now() + 10_000 };
  const heading = { environment: "shop", opened: 1 };
  const first = [
    { body: '{"type":"session.seeded","at":5,"call":"a=\\n b"}', at: 5, key: "seed a=\n b" },
    { body: '{"at":6}', at: 6 },
  ] as const;
  const write = { session: "s", seen: { version: 0, mark: "" }, entries: first, mark: "@6", heading };
  expect(await driver.append([[write]], call)).toEqual(["ok"]);
  const last = [{ body: "x", at: 7.5, key: "" }] as const;
  expect(
    await driver.append([[{ session: "s", seen: { version: 2, mark: "@6" }, entries: last, mark: "@7.5" }]], call),
  ).toEqual(["ok"]);
  const range = { after: 0, upTo: Infinity, limit: Infinity, bytes: 1e6, snapshot: false };
  const entries = [...first, ...last].map((entry, index) => ({ version: index + 1, ...entry }));
  expect((await driver.read("s", range, call))?.entries).toEqual(entries);
  expect(await driver.find!("s", "seed a=\n b", call)).toEqual(entries[0]);
  await redis.command("hdel", "holdfast:{0}:k:s", "@1", "@2");
  expect((await driver.read("s", range, call))?.entries).toEqual(entries);
  await driver.close?.();
});

test("SERIAL: keeps the mark of a log, and takes the time where the newest entry has none", async () => {
  const driver = redisDriver(connectTo(addressOf({ url: redis.url, prefix: "marks" })));
  const call = { until: performance.now() + 10_000 };
  const heading = { environment: "shop", opened: 1 };
  const append = async (version: number, seen: string, mark: string, more = {}): Promise<string[]> =>
    driver.append(
      [[{ session: "s", seen: { version, mark: seen }, entries: [{ body: "x", at: version }], mark, ...more }]],
      call,
    );
  const endMark = async (): Promise<string[]> => {
    const page = await driver.read("s", { after: 0, upTo: 9, limit: 0, bytes: 1, snapshot: false }, call);
    const { rows } = await driver.list({ order: "opened", limit: 9 }, call);
    return [page!.end.mark, rows[0]!.mark];
  };
  expect(await append(0, "", "aaaa", { heading })).toEqual(["ok"]);
  for (const more of [{}, { heading }]) expect(await append(1, "bbbb", "cccc", more)).toEqual(["conflict"]);
  expect(await append(1, "@0", "cccc")).toEqual(["conflict"]);
  expect(await append(1, "aaaa", "cccc")).toEqual(["ok"]);
  expect(await append(2, "cccc", "dddd", { heading })).toEqual(["ok"]);
  expect(await endMark()).toEqual(["dddd", "dddd"]);
  expect(await driver.delete("s", { version: 3, mark: "cccc" }, call)).toBe(false);
  // As version 0.1 commits.
  await redis.command("hset", "marks:{0}:s:s", "v", 4, "t", 77);
  await redis.command("rpush", "marks:{0}:e:s", "old");
  expect(await endMark()).toEqual(["@77", "@77"]);
  expect(await append(4, "dddd", "eeee")).toEqual(["conflict"]);
  expect(await append(4, "@77", "eeee")).toEqual(["ok"]);
  expect(await driver.delete("s", { version: 5, mark: "eeee" }, call)).toBe(true);
  await driver.close?.();
});

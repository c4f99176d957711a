// The driver of the Redis store returns the time and key of each entry, also of entries without notes, as version 0.1 wrote.
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
    { body: '{"at":5}', at: 5, key: "a=\n b" },
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
  expect(await driver.find!("s", "a=\n b", call)).toEqual(entries[0]);
  await redis.command("hdel", "holdfast:{0}:k:s", "@1", "@2");
  expect((await driver.read("s", range, call))?.entries).toEqual(entries);
  await driver.close?.();
});

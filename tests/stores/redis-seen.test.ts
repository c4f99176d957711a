// A Redis after a failover to a lagging replica: its log may have the writer's length and another content.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Commit } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { startRedis, type RedisServer } from "../../tools/servers/redis.mjs";

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
afterAll(() => redis.stop());

const opening: Commit = {
  session: "a",
  version: 0,
  entries: [{ body: "1", at: 10 }],
  heading: { environment: "shop", opened: 10 },
};
const next: Commit = { session: "a", version: 1, entries: [{ body: "2", at: 20 }] };

describe("a commit made for another log of the same length", () => {
  // A commit of one entry has its own script.
  const kinds: [string, Partial<Commit>][] = [
    ["of one entry", {}],
    ["with a heading", { heading: opening.heading! }],
  ];
  test.each(kinds)("SERIAL: is a conflict, %s", async (kind, more) => {
    const store = redisStore({ url: redis.url, prefix: kind });
    try {
      expect(await store.append(opening)).toBe("ok");
      expect(await store.append({ ...next, ...more, seen: "@11" })).toBe("conflict");
      expect(await store.read("a", 0)).toHaveLength(1);
      expect(await store.append({ ...next, ...more, seen: (await store.load("a"))!.mark })).toBe("ok");
      expect(await store.append({ ...next, ...more, version: 2 }), "not said, not looked at").toBe("ok");
    } finally {
      await store.close();
    }
  });
});

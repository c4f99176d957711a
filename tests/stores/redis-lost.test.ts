// A Redis that lost a part of a session says so at once: nothing is read from the rest, and nothing is committed on top.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { runStoreChecks } from "../../src/testing/store-checks.ts";
import { type RedisServer, startRedis } from "../../tools/servers/redis.mjs";

let redis: RedisServer;
beforeAll(async () => void (redis = await startRedis()));
afterAll(() => redis.stop());

const commitOf = (session: string, version: number, more: Partial<Commit> = {}): Commit => ({
  session,
  version,
  entries: [{ body: `"${version + 1}"`, at: version + 1, key: `call ${version}` }],
  ...more,
});

async function open(prefix: string): Promise<{ store: Store; seen: string }> {
  const store = redisStore({ url: redis.url, prefix });
  await store.append(commitOf("s", 0, { heading: { environment: "shop", opened: 1 } }));
  const first = await store.load("s");
  await store.append(commitOf("s", 1, { seen: first!.mark, snapshot: { version: 2, body: '"state"' } }));
  const { mark } = (await store.load("s"))!;
  return { store, seen: mark };
}

const commands = async (): Promise<number> =>
  Number(/total_commands_processed:(\d+)/.exec(String(await redis.command("info", "stats")))![1]);

describe("a Redis that lost a part of a session", () => {
  test.each(["e", "k", "p", "q"])(":%s: is store_corrupt for every reader and writer, without a loop", async (part) => {
    const prefix = `lost-${part}`;
    const { store, seen } = await open(prefix);
    await redis.command("del", `${prefix}:{0}:${part}:s`);
    const before = await commands();
    const corrupt = expect.objectContaining({ code: "store_corrupt" }) as Error;
    await expect(store.load("s")).rejects.toEqual(corrupt);
    await expect(store.read("s", 0)).rejects.toEqual(corrupt);
    await expect(store.find("s", "call 0")).rejects.toEqual(corrupt);
    const writes: Commit[] = [
      commitOf("s", 2, { seen }),
      commitOf("s", 2, { seen, entries: [{ body: '"3"', at: 3 }] }),
      commitOf("s", 2, { seen, heading: { environment: "shop", opened: 1, ended: "closed" } }),
    ];
    // A snapshot is not needed for the next entry.
    for (const write of part === "p" || part === "q" ? writes.slice(2) : writes) {
      await expect(store.append(write)).rejects.toEqual(corrupt);
    }
    expect((await commands()) - before).toBeLessThan(100);
    expect(await redis.command("hget", `${prefix}:{0}:s:s`, "v")).toBe("2");
    if (part === "e") expect(await redis.command("exists", `${prefix}:{0}:e:s`)).toBe("0");
    expect(await store.delete("s")).toBe(true);
    expect(await store.append(commitOf("s", 0, { heading: { environment: "shop", opened: 1 } }))).toBe("ok");
    await store.close();
  });

  test("is found by a check of the store, which names the session", { tags: ["full"] }, async () => {
    const { store } = await open("checked");
    await redis.command("del", "checked:{0}:e:s");
    const results = await runStoreChecks(async () => redisStore({ url: redis.url, prefix: "checked" }));
    const failed = results.filter(({ result }) => result === "fail");
    expect(failed).toMatchObject([{ what: "every existing session can be read" }]);
    expect(failed[0]!.message).toContain("s: the Redis store");
    await store.close();
  });
});

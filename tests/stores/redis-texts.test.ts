// Texts that UTF-8 cannot represent: the Redis store returns them unchanged, and confuses no two of them.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { type RedisServer, startRedis } from "../../tools/servers/redis.mjs";

let redis: RedisServer;
let store: Store;
beforeAll(async () => {
  redis = await startRedis();
  store = redisStore({ url: redis.url });
});
afterAll(async () => {
  await store.close();
  await redis.stop();
});

const odd = ["\ud800", "\ud801", "\udfff\ud800", "\ufffd", "\u{1f600}", "\u0001", "\u0001d800", "\0"];

test("half a surrogate pair in ids, keys, environments and bodies stays unchanged", async () => {
  for (const text of odd) {
    const commit: Commit = {
      session: text,
      version: 0,
      entries: [
        { body: text, at: 1, key: text },
        { body: "{}", at: 1 },
      ],
      heading: { environment: text, opened: 1 },
      snapshot: { version: 1, body: text },
    };
    expect(await store.append(commit)).toBe("ok");
  }
  for (const text of odd) {
    expect(await store.find(text, text)).toMatchObject({ version: 1, body: text });
    expect(await store.load(text)).toMatchObject({
      snapshot: { version: 1, body: text },
      entries: [{ version: 2, body: "{}" }],
    });
    expect((await store.read(text, 0))![0]!.body).toBe(text);
    expect(await store.count(text)).toBe(1);
  }
  const [first, second] = odd as [string, string];
  expect(await store.append({ session: first, version: 2, entries: [{ body: second, at: 2, key: second }] })).toBe(
    "ok",
  );
  expect(await store.append({ session: first, version: 3, entries: [{ body: "", at: 2, key: second }] })).toBe(
    "duplicate",
  );
  const listed = async (filter: Parameters<Store["list"]>[0]): Promise<string[]> => {
    const seen: string[] = [];
    for await (const { session, environment } of store.list(filter)) {
      expect(environment).toBe(session);
      seen.push(session);
    }
    return seen;
  };
  expect(await listed({})).toEqual(odd);
  expect(await listed({ after: second })).toEqual(odd.slice(2));
  expect(await listed({ environment: second })).toEqual([second]);
  expect(await listed({ environment: second, idleBefore: 9 })).toEqual([second]);
  expect((await listed({ idleBefore: 9 })).toSorted()).toEqual(odd.toSorted());
  await expect(listed({ after: "\udc00" })).rejects.toThrow(String.raw`after "\udc00": that session does not exist`);
  for (const text of odd) expect(await store.delete(text)).toBe(true);
  expect(await redis.command("keys", "*{0}:[sekpqaoxv]*")).toBe("");
});

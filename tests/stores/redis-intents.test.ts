// Commits to several buckets of the Redis store are stored together or not at all, wherever their writer is killed.
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { Appended, Commit, Store } from "../../src/core/store.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { addressOf } from "../../src/stores/redis/address.ts";
import { createStore } from "../../src/stores/front.ts";
import { hashBucket } from "../../src/stores/redis/commits.ts";
import { connectTo } from "../../src/stores/redis/connection.ts";
import { redisDriver } from "../../src/stores/redis/driver.ts";
import type { ScriptName } from "../../src/stores/redis/scripts.ts";
import { startCluster } from "../../tools/servers/redis.mjs";

const cluster = await startCluster();
afterAll(() => cluster.stop());

function commitOf(session: string, version: number, body = `"${version + 1}"`): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: version } } : {};
  return { session, version, entries: [{ body, at: version, key: `k${version}` }], ...heading };
}

/** A killed store: only `calls` of its calls reach the server, and nothing after them. */
function killedAfter(prefix: string, calls: number): { store: Store; made: ScriptName[] } {
  const connection = connectTo(addressOf({ url: cluster.url, prefix }));
  const made: ScriptName[] = [];
  const driver = redisDriver({
    ...connection,
    async run(...args) {
      if (made.length >= calls) throw new Error("killed");
      made.push(args[0]);
      return connection.run(...args);
    },
  });
  const store = createStore(driver);
  return { store, made };
}

async function lengthOf(store: Store, session: string): Promise<number> {
  return (await store.read(session, 0))?.length ?? 0;
}

async function listed(store: Store): Promise<Record<string, number>> {
  const versions: Record<string, number> = {};
  for await (const { session, version } of store.list()) versions[session] = version;
  return versions;
}

/** The first verb of a reader after the writer was killed. */
const looks: Record<string, (store: Store) => Promise<unknown>> = {
  "the first log": (store) => store.read("a", 0),
  "the last log": (store) => store.load("c"),
  "a key": (store) => store.find("b", "k1"),
  "the list": listed,
  "the list by idle time": async (store) => {
    for await (const row of store.list({ idleBefore: 99 })) expect(row.version).toBeGreaterThan(0);
  },
  "the count": (store) => store.count("shop"),
};

describe("commits to several buckets", () => {
  test("the sessions of these tests are in different buckets", () => {
    expect(new Set(["a", "b", "c"].map((session) => hashBucket(session, 256))).size).toBe(3);
  });

  for (const start of [0, 1]) {
    test(
      `ATOMIC: a writer that ${start === 0 ? "opens" : "extends"} three logs may be killed after any step`,
      { tags: ["full"], timeout: 120_000 },
      async () => {
        const outcomes = new Set<number>();
        let steps: ScriptName[] = [];
        for (let calls = 0; ; calls++) {
          let done = false;
          const one = async ([what, look]: [string, (store: Store) => Promise<unknown>]): Promise<void> => {
            const prefix = `t${randomUUID()}`;
            const store = redisStore({ url: cluster.url, prefix });
            if (start === 1) for (const session of ["a", "b", "c"]) await store.append(commitOf(session, 0));
            const { store: writer, made } = killedAfter(prefix, calls);
            const commits = ["a", "b", "c"].map((session) => commitOf(session, start)) as [Commit, Commit, Commit];
            const answer = await writer.append(...commits).catch((): Appended | undefined => undefined);
            await look(store);
            const versions = await Promise.all(["c", "a", "b"].map((session) => lengthOf(store, session)));
            const where = `${what}, after ${made.join(", ")}`;
            expect(new Set(versions).size, `${versions.join(", ")} seen after looking at ${where}`).toBe(1);
            const version = versions[0]!;
            if (answer === "ok") expect(version, where).toBe(start + 1);
            expect(await listed(store), where).toEqual(version === 0 ? {} : { a: version, b: version, c: version });
            expect(await store.count("shop"), where).toBe(version === 0 ? 0 : 3);
            // No session stays locked.
            for (const session of ["b", "c"]) expect(await store.append(commitOf(session, version)), where).toBe("ok");
            expect(await store.delete("a"), where).toBe(version > 0);
            outcomes.add(version);
            done = made.at(-1) === "done";
            steps = made;
            await store.close();
            await writer.close();
          };
          await Promise.all(Object.entries(looks).map(one));
          if (done) break;
        }
        expect([...outcomes].sort()).toEqual([start, start + 1]);
        expect(new Set(steps)).toEqual(new Set(["judge", "intend", "prepare", "commit", "apply", "done"]));
      },
    );
  }

  test("ATOMIC: no intent is left, completed or abandoned", async () => {
    const prefix = `t${randomUUID()}`;
    const store = redisStore({ url: cluster.url, prefix });
    const all = ["a", "b", "c"].map((session) => commitOf(session, 0)) as [Commit, Commit, Commit];
    expect(await store.append(...all)).toBe("ok");
    expect(await store.append(...all)).toBe("duplicate");
    const { store: writer } = killedAfter(prefix, 6);
    await writer.append(commitOf("a", 1), commitOf("b", 1), commitOf("c", 1)).catch(() => {});
    for (const session of ["a", "b", "c"]) expect(await store.append(commitOf(session, 1))).toBe("ok");
    await writer.close();
    await store.close();
    const keys = await Promise.all(cluster.servers.map((server) => server.command("keys", `${prefix}:*`)));
    const left = keys.flatMap((text) => text.split("\n")).filter((key) => /\}:(?:i:|t:|w$)/.test(key));
    // Its note expires by itself: without it nothing happens.
    const notes = left.filter((key) => key.includes("}:t:"));
    expect(left).toEqual(notes);
    for (const note of notes) {
      const ttls = await Promise.all(cluster.servers.map((server) => server.command("pttl", note)));
      expect(ttls.some((ttl) => Number(ttl) > 0)).toBe(true);
    }
  });
});

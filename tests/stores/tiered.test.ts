// The tiered store passes the shared cases on several pairs of stores, also while everything is constantly moved.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import type { Appended, Commit, Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { s3Store } from "../../src/stores/s3.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { tieredStore, type TieredStore } from "../../src/stores/tiered.ts";
import { startS3 } from "../../tools/servers/s3.mjs";
import { runs } from "../runs.ts";
import { runStoreCases } from "./run-cases.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-tiered-"));
const s3 = await startS3();
afterAll(async () => {
  await s3.stop();
  rmSync(folder, { recursive: true, force: true });
});
let made = 0;

const never = 1e12;
const credentials = { accessKeyId: "AKIDTEST", secretAccessKey: "secret" };

/** A store that sweeps continuously. */
function restless(store: TieredStore): TieredStore {
  const state = { stopped: false };
  const sweeping = (async () => {
    while (!state.stopped) {
      await store.sweep().catch(() => undefined);
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  return {
    ...store,
    async close() {
      state.stopped = true;
      await store.close();
      await sweeping;
    },
  };
}

runStoreCases(
  "tiered: memory over memory",
  () => ({ open: () => tieredStore({ hot: memoryStore(), cold: memoryStore(), idle: never }) }),
  { persistent: false },
);

runStoreCases(
  "tiered: memory over memory, everything moved all the time",
  () => ({ open: () => restless(tieredStore({ hot: memoryStore(), cold: memoryStore(), idle: 0 })) }),
  { persistent: false },
);

function onDisk(idle: number): () => TieredStore {
  const name = `${made++}`;
  return () =>
    tieredStore({
      hot: sqliteStore({ file: join(folder, `${name}.db`) }),
      cold: s3Store({ url: `s3://test/${name}?endpoint=${s3.endpoint}`, credentials }),
      idle,
    });
}

runStoreCases("tiered: sqlite over s3", () => ({ open: onDisk(never) }));

// Two stores on the same files that both move everything constantly, as other processes would.
runStoreCases(
  "tiered: sqlite over sqlite, everything moved all the time",
  () => {
    const name = `${made++}`;
    return {
      open: () =>
        restless(
          tieredStore({
            hot: sqliteStore({ file: join(folder, `${name} hot.db`) }),
            cold: sqliteStore({ file: join(folder, `${name} cold.db`) }),
            idle: 0,
          }),
        ),
    };
  },
  { tags: ["full"] },
);

function commitOf(session: string, version: number, key = `k${version}`): Commit {
  const heading = { environment: "shop", opened: 1 };
  return { session, version, entries: [{ body: `"${key}"`, at: version + 1, key }], heading };
}

async function rowsOf(store: Store): Promise<string[]> {
  const rows: string[] = [];
  for await (const { session, version, touched } of store.list()) rows.push(`${session} ${version} ${touched}`);
  return rows;
}

test("an idle session leaves the hot store, is read from the cold one, and returns with the next commit", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const store = tieredStore({ hot, cold, idle: 60_000 });
  const large = JSON.stringify("x".repeat(1000));
  for (const session of ["a", "b"]) {
    await store.append({ ...commitOf(session, 0), snapshot: { version: 1, body: large } });
    await store.append(commitOf(session, 1));
  }
  await store.append({ ...commitOf("b", 2), entries: [{ body: large, at: Date.now(), key: "now" }] });
  expect(await store.sweep()).toBe(1);
  expect((await rowsOf(cold)).length).toBe(1);
  const kept = JSON.stringify(await Promise.all((await rowsOf(hot)).map((row) => hot.read(row.split(" ")[0]!, 0))));
  expect(kept).not.toContain('"k1"]');
  expect((await rowsOf(store)).map((row) => row.split(" ").slice(0, 2).join(" "))).toEqual(["a 2", "b 3"]);
  expect(await store.load("a")).toMatchObject({
    snapshot: { version: 1, body: large },
    entries: [{ version: 2, body: '"k1"' }],
  });
  expect(await store.find("a", "k1")).toMatchObject({ version: 2, body: '"k1"' });
  expect(await store.count("shop")).toBe(2);
  expect((await rowsOf(cold)).length).toBe(1);
  expect(await store.append(commitOf("a", 1, "other"))).toBe("conflict");
  expect(await store.append(commitOf("a", 2, "k0"))).toBe("duplicate");
  expect((await rowsOf(cold)).length).toBe(1);
  expect(await store.append(commitOf("a", 2))).toBe("ok");
  expect((await store.read("a", 0))?.map(({ body }) => body)).toEqual(['"k0"', '"k1"', '"k2"']);
  expect(await store.sweep()).toBe(1);
  expect(await store.delete("a")).toBe(true);
  expect(await rowsOf(cold)).toEqual([]);
  // Only the mark of its deletion.
  const left = (await rowsOf(hot)).filter((row) => row.startsWith("a "));
  expect(left).toEqual([expect.stringMatching(/^a 6 /)]);
  await store.close();
});

/** A store whose process dies after a number of operations: the last one is applied or not, without an answer. */
function mortal(inner: Store, life: { left: number; isApplied: boolean }): Store {
  const dead = new Error("the process died");
  const step = async <T>(run: () => Promise<T>): Promise<T> => {
    life.left--;
    if (life.left < 0 && !(life.left === -1 && life.isApplied)) throw dead;
    const result = await run();
    if (life.left < 0) throw dead;
    return result;
  };
  return {
    ...inner,
    append: (...commits) => step(() => inner.append(...commits)),
    read: (...given) => step(() => inner.read(...given)),
    load: (...given) => step(() => inner.load(...given)),
    find: (...given) => step(() => inner.find(...given)),
    delete: (...given) => step(() => inner.delete(...given)),
    close: async () => undefined,
  };
}

/** A model of a store: the keys of each log. */
class Model {
  readonly logs = new Map<string, string[]>();

  append(commits: Commit[]): Appended {
    const logs = commits.map(({ session }) => this.logs.get(session) ?? []);
    if (commits.some(({ entries: [{ key }] }, at) => logs[at]!.includes(key!))) return "duplicate";
    if (commits.some(({ version }, at) => version !== logs[at]!.length)) return "conflict";
    for (const [at, { session, entries }] of commits.entries()) this.logs.set(session, [...logs[at]!, entries[0].key!]);
    return "ok";
  }
}

const names = ["a", "b", "c"];
const step = fc.record({
  verb: fc.constantFrom("append", "append", "append", "sweep", "sweep", "delete"),
  sessions: fc.shuffledSubarray(names, { minLength: 1 }),
  off: fc.constantFrom(0, 0, 0, 0, 1, -1),
  key: fc.nat(30),
  dies: fc.option(fc.record({ left: fc.nat(12), isApplied: fc.boolean() }), { nil: undefined, freq: 3 }),
});

test("ATOMIC, DURABLE: a process that dies after any operation leaves one truth, and it is that of a model", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
    const [hot, cold] = [memoryStore(), memoryStore()];
    const model = new Model();
    let life = { left: Infinity, isApplied: false };
    const start = (): TieredStore => tieredStore({ hot: mortal(hot, life), cold: mortal(cold, life), idle: 0 });
    let store = start();
    const logOf = async (session: string): Promise<string[] | undefined> =>
      (await store.read(session, 0))?.map(({ body }) => JSON.parse(body) as string);
    for (const { verb, sessions, off, key, dies } of steps) {
      Object.assign(life, dies ?? { left: Infinity });
      const commits = sessions.map((session) =>
        commitOf(session, Math.max(0, (model.logs.get(session)?.length ?? 0) + off), `k${key}`),
      ) as [Commit, ...Commit[]];
      const [first] = commits;
      const before = new Map(model.logs);
      let answer: unknown = "died";
      let expected: unknown;
      try {
        if (verb === "append") answer = await store.append(...commits);
        else if (verb === "delete") answer = await store.delete(first.session);
        else await store.sweep();
      } catch (error) {
        expect(String(error)).toContain("the process died");
      }
      if (verb === "append") expected = model.append(commits);
      else if (verb === "delete") expected = model.logs.delete(first.session);
      else expected = answer;
      if (answer !== "died") expect(answer).toEqual(expected);
      if (life.left < 0) {
        await store.close();
        life = { left: Infinity, isApplied: false };
        store = start();
        // It was applied or not; every later reader finds the same.
        if (answer === "died" && verb !== "sweep") {
          const log = await logOf(first.session);
          if (JSON.stringify(log) !== JSON.stringify(model.logs.get(first.session))) {
            model.logs.clear();
            for (const [session, keys] of before) model.logs.set(session, keys);
          }
        }
      }
      Object.assign(life, { left: Infinity });
      for (const session of names) expect(await logOf(session)).toEqual(model.logs.get(session));
      expect(await store.count("shop")).toBe(model.logs.size);
      const listed = (await rowsOf(store)).map((row) => row.split(" ")[0]!);
      expect(listed.toSorted()).toEqual([...model.logs.keys()].toSorted());
      const idle: string[] = [];
      for await (const { session } of store.list({ idleBefore: never })) idle.push(session);
      expect(idle.toSorted()).toEqual([...model.logs.keys()].toSorted());
    }
    await store.close();
  });
  await fc.assert(property, { numRuns: runs(60) });
});

test("sessions from before the tiers are served as before, beside new ones, and stay in their store", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const heading = { environment: "shop", opened: 1 };
  const entry = (body: string, key: string) => ({ body, at: 1, key });
  await hot.append({ session: "old", version: 0, entries: [entry('{"type":"a","place":"hot"}', "k1")], heading });
  await hot.append({ session: "odd", version: 0, entries: [entry("no JSON", "k1")], heading });
  const store = tieredStore({ hot, cold, idle: 0 });
  expect(await store.append({ session: "new", version: 0, entries: [entry('"n"', "k1")], heading })).toBe("ok");
  expect(await store.append({ session: "old", version: 1, entries: [entry('"b"', "k1")] })).toBe("duplicate");
  expect(await store.append({ session: "old", version: 0, entries: [entry('"b"', "k2")], heading })).toBe("conflict");
  const both = ["old", "new"].map((session) => ({ session, version: 1, entries: [entry('"b"', "k2")] }));
  expect(await store.append(...(both as [Commit, Commit]))).toBe("ok");
  await store.sweep();
  await store.sweep();
  for (const session of ["old", "new"]) {
    expect((await store.read(session, 1))?.map(({ body }) => body)).toEqual(['"b"']);
    expect(await store.find(session, "k2")).toMatchObject({ version: 2, body: '"b"' });
  }
  expect((await store.load("odd"))?.entries).toMatchObject([{ version: 1, body: "no JSON" }]);
  const listed = async (filter: Parameters<Store["list"]>[0]): Promise<string[]> => {
    const rows: string[] = [];
    for await (const { session, version } of store.list(filter)) rows.push(`${session} ${version}`);
    return rows;
  };
  expect(await listed({ environment: "shop", open: true })).toEqual(["old 2", "odd 1", "new 2"]);
  expect(await listed({ after: "old" })).toEqual(["odd 1", "new 2"]);
  expect((await listed({ idleBefore: 5 })).sort()).toEqual(["new 2", "odd 1", "old 2"]);
  expect(await store.count("shop")).toBe(3);
  expect(await store.delete("old")).toBe(true);
  expect(await store.read("old", 0)).toBeUndefined();
  expect(await store.count("shop")).toBe(2);
  await store.close();
});

// Group commit on Postgres: concurrent commits share a transaction, and many writers of the same sessions never
// deadlock.
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Appended, Commit, Store } from "../../src/core/store.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { ask, startPgBouncer, startPostgres } from "../../tools/servers/postgres.mjs";

const server = await startPostgres({ settings: { fsync: "off" } });
const stores: Store[] = [];
afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));
afterAll(() => server.stop());

let made = 0;
const newSchema = (): string => `s${made++}`;

function open(schema: string, url = server.url): Store {
  const store = postgresStore({ url: `${url}?schema=${schema}` });
  stores.push(store);
  return store;
}

function commitOf(session: string, version: number, body = `"${version + 1}"`, environment = "shop"): Commit {
  const heading = version === 0 ? { heading: { environment, opened: 1 } } : {};
  return { session, version, entries: [{ body, at: version }], ...heading };
}

const ok = (count: number): Appended[] => Array.from({ length: count }, () => "ok");

/** The number of transactions that wrote the events of a version. */
async function transactions(schema: string, version: number): Promise<number> {
  const sql = `SELECT count(DISTINCT xmin::text)::int AS n FROM ${schema}.events WHERE version = ${version}`;
  const [row] = await ask<{ n: number }>(server.url, sql);
  return row!.n;
}

/** The number of deadlocks that Postgres broke up. Connections report when they end. */
async function deadlocks(): Promise<number> {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  const open = "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast'";
  while ((await ask(server.url, open)).length > 0);
  const sql = "SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = 'holdfast'";
  const [row] = await ask<{ n: number }>(server.url, sql);
  return row!.n;
}

describe("group commit", () => {
  test("writes concurrent commits in few transactions", async () => {
    const schema = newSchema();
    const store = open(schema);
    await store.append(commitOf("first", 0));
    const names = Array.from({ length: 1000 }, (_, index) => `s${index}`);
    for (const version of [0, 1, 2]) {
      const answers = await Promise.all(names.map((name) => store.append(commitOf(name, version))));
      expect(answers).toEqual(ok(1000));
      expect(await transactions(schema, version + 1), `of version ${version + 1}`).toBeLessThanOrEqual(4);
    }
  });

  test("continues writing while a group is in flight, and puts new commits into the next group", async () => {
    const schema = newSchema();
    const store = open(schema);
    const names = Array.from({ length: 50 }, (_, index) => `s${index}`);
    await Promise.all(
      names.map(async (name) => {
        for (let version = 0; version < 20; version++) expect(await store.append(commitOf(name, version))).toBe("ok");
      }),
    );
    const [row] = await ask<{ n: number }>(
      server.url,
      `SELECT count(DISTINCT xmin::text)::int AS n FROM ${schema}.events`,
    );
    expect(row!.n, "transactions for 1,000 commits").toBeLessThan(200);
  });

  test("one commit that cannot be written does not fail the others", async () => {
    const store = open(newSchema());
    // An id that no index accepts.
    const long = Array.from({ length: 2000 }, (_, index) => (index * 7919).toString(36)).join("");
    const answers = await Promise.allSettled([
      store.append(commitOf("a", 0)),
      store.append(commitOf("b", 0), commitOf(long, 0)),
      store.append(commitOf(long, 0)),
      store.append(commitOf("c", 0), commitOf("d", 0)),
      store.append(commitOf("e", 5)),
    ]);
    expect(answers.map((answer) => (answer.status === "fulfilled" ? answer.value : answer.reason))).toEqual([
      "ok",
      expect.objectContaining({ code: "store_failed" }),
      expect.objectContaining({ code: "store_failed" }),
      "ok",
      "conflict",
    ]);
    expect(await store.count("shop")).toBe(3);
    expect(await store.read("b", 0)).toBe(undefined);
  });

  test("bodies too large for one group are written in several", async () => {
    const schema = newSchema();
    const store = open(schema);
    const body = JSON.stringify("x".repeat(1_000_000));
    const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
    expect(await Promise.all(names.map((name) => store.append(commitOf(name, 0, body))))).toEqual(ok(12));
    expect(await transactions(schema, 1)).toBeGreaterThanOrEqual(3);
  });
});

describe("many writers", () => {
  test("SERIAL: four stores with 64 writers each over 20 sessions, two and three at once, never deadlock", async () => {
    const before = await deadlocks();
    const schema = newSchema();
    const handles = Array.from({ length: 4 }, () => open(schema));
    const names = Array.from({ length: 20 }, (_, index) => `s${index}`);
    await Promise.all(names.map((name) => handles[0]!.append(commitOf(name, 0))));
    const expected = new Map(names.map((name) => [name, 1]));
    await Promise.all(
      handles.flatMap((store, handle) =>
        Array.from({ length: 64 }, async (_, writer) => {
          const start = handle * 64 + writer;
          // Each in its own order.
          const chosen = [start, start * 7 + 3, start * 3 + 1].map((at) => names[at % 20]!);
          const sessions = [...new Set(chosen)];
          for (let tries = 0; ; tries++) {
            if (tries > 5000) expect.fail("refused 5,000 times");
            const lengths = await Promise.all(sessions.map(async (id) => (await store.read(id, 0))!.length));
            const [first, ...rest] = sessions.map((id, at) => commitOf(id, lengths[at]!, `"${start}"`));
            if ((await store.append(first!, ...rest)) === "ok") break;
          }
          for (const id of sessions) expected.set(id, expected.get(id)! + 1);
        }),
      ),
    );
    for (const [id, length] of expected) {
      const bodies = (await handles[1]!.read(id, 1))!.map(({ body }) => body);
      expect(bodies, `the log of ${id}`).toHaveLength(length - 1);
      expect(new Set(bodies).size).toBe(bodies.length);
    }
    expect(await deadlocks()).toBe(before);
  }, 120_000);

  test("SERIAL: stores that open, end and delete the same sessions in other orders keep the counts right", async () => {
    const before = await deadlocks();
    const schema = newSchema();
    const handles = Array.from({ length: 4 }, () => open(schema));
    const names = Array.from({ length: 40 }, (_, index) => `s${index}`);
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        handles.map((store, handle) => {
          const [first, ...rest] = names.map((name, at) => commitOf(name, 0, `"${handle}"`, at % 2 ? "shop" : "chess"));
          const all = [first!, ...rest];
          if (handle % 2 === 1) all.reverse();
          return store.append(...(all as [Commit, ...Commit[]]));
        }),
      );
      expect(answers.toSorted()).toEqual(["conflict", "conflict", "conflict", "ok"]);
      const winner = `"${answers.indexOf("ok")}"`;
      for (const name of names) expect(await handles[0]!.read(name, 0)).toMatchObject([{ version: 1, body: winner }]);
      await Promise.all([
        ...names.slice(0, 10).map((name) => handles[0]!.delete(name)),
        ...names.slice(5, 20).map((name) => {
          const heading = { environment: "chess", opened: 1, ended: "closed" as const };
          return handles[1]!.append({ ...commitOf(name, 1), heading });
        }),
        ...names.slice(0, 10).map((name) => handles[2]!.delete(name)),
      ]);
      for (const [environment, store] of [
        ["shop", handles[3]!],
        ["chess", handles[0]!],
      ] as const) {
        let open = 0;
        for await (const row of store.list({ environment, open: true })) open += Number(row.version > 0);
        expect(await store.count(environment), environment).toBe(open);
        expect(open).toBe(10);
      }
      await Promise.all(names.map((name) => handles[round % 4]!.delete(name)));
      expect([await handles[0]!.count("shop"), await handles[1]!.count("chess")]).toEqual([0, 0]);
    }
    const left = await ask(server.url, `SELECT (SELECT count(*) FROM ${schema}.events)::int AS events`);
    expect(left).toEqual([{ events: 0 }]);
    expect(await deadlocks()).toBe(before);
  });

  test("through PgBouncer, which shares connections, stores detect it by themselves and lose no commit", async () => {
    const bouncer = await startPgBouncer(server.url, { settings: { default_pool_size: 2 } });
    try {
      const schema = newSchema();
      const handles = Array.from({ length: 6 }, () => open(schema, bouncer.url));
      await Promise.all(
        handles.map(async (store, handle) => {
          for (let version = 0; version < 30; version++) {
            const commits = [0, 1, 2].map((at) => store.append(commitOf(`${handle} ${at}`, version)));
            expect(await Promise.all([...commits, store.count("none")])).toEqual(["ok", "ok", "ok", 0]);
          }
        }),
      );
      expect(await handles[0]!.count("shop")).toBe(18);
      expect(await handles[5]!.read("0 0", 0)).toHaveLength(30);
      await Promise.all(stores.splice(0).map((store) => store.close()));
    } finally {
      await bouncer.stop();
    }
  });
});

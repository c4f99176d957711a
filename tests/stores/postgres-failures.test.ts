// The Postgres store when its server is stopped, paused, killed, full, crowded or closed: every verb settles, nothing
// is lost.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { inspect } from "node:util";
import pg from "pg";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { faultOf } from "../../src/stores/postgres/failures.ts";
import { ask, startPgBouncer, startPostgres } from "../../tools/servers/postgres.mjs";

// Few connections, so that they can be used up.
const server = await startPostgres({ settings: { max_connections: 12, superuser_reserved_connections: 1 } });
const closed: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  server.resume();
  await Promise.all(closed.splice(0).map((close) => close()));
});
afterAll(() => server.stop());

let made = 0;
const newUrl = (query = "", url = server.url): string => `${url}?schema=s${made++}${query}`;

function open(url: string): Store {
  const store = postgresStore({ url });
  closed.push(() => store.close());
  return store;
}

async function connect(url = server.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  closed.push(() => client.end());
  return client;
}

function commitOf(session: string, version: number, body = `"${version + 1}"`): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body, at: version, key: `k${version}` }], ...heading };
}

async function collect(store: Store, idleBefore?: number): Promise<string[]> {
  const ids: string[] = [];
  for await (const { session } of store.list(idleBefore === undefined ? {} : { idleBefore })) ids.push(session);
  return ids;
}

const verbs: Record<string, (store: Store) => Promise<unknown>> = {
  append: (store) => store.append(commitOf("a", 1)),
  "append of several": (store) => store.append(commitOf("b", 0), commitOf("c", 0)),
  read: (store) => store.read("a", 0),
  load: (store) => store.load("a"),
  find: (store) => store.find("a", "k0"),
  list: (store) => collect(store),
  "list by idle time": (store) => collect(store, 99),
  count: (store) => store.count("shop"),
  delete: (store) => store.delete("x"),
};

/** Calls every verb at once: each must be rejected with store_busy in time. */
async function expectBusy(store: Store): Promise<void> {
  await Promise.all(
    Object.entries(verbs).map(async ([name, verb]) => {
      const start = performance.now();
      await expect(verb(store), name).rejects.toMatchObject({ name: "HoldfastError", code: "store_busy" });
      expect(performance.now() - start, `the time of ${name}`).toBeLessThan(6000);
    }),
  );
}

async function expectAllWell(store: Store): Promise<void> {
  for (const [name, verb] of Object.entries(verbs))
    await verb(store).catch((error) => expect.fail(`${name}: ${error}`));
}

/** Writers that continue through every failure, as the engine does: after a failure each reads its log. */
function writers(store: Store, count: number): { answered: Map<string, Set<string>>; stop(): Promise<void> } {
  const answered = new Map<string, Set<string>>();
  const stopping = new AbortController();
  const running = Array.from({ length: count }, async (_, writer) => {
    const session = `w${writer}`;
    const mine = new Set<string>();
    answered.set(session, mine);
    for (let [version, tries] = [0, 0]; !stopping.signal.aborted; tries++) {
      const body = `"${writer} ${tries}"`;
      try {
        const answer = await store.append({ ...commitOf(session, version), entries: [{ body, at: 1, key: body }] });
        if (answer === "ok") {
          mine.add(body);
          version++;
        } else version = (await store.read(session, 0))?.length ?? 0;
      } catch (error) {
        expect(error).toMatchObject({ name: "HoldfastError" });
        version = (await store.read(session, 0).catch(() => undefined))?.length ?? version;
      }
    }
  });
  return {
    answered,
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

/** Compares the answered commits with the commits that another store finds. */
async function expectKept(url: string, answered: Map<string, Set<string>>): Promise<void> {
  const store = open(url);
  for (const [session, bodies] of answered) {
    const entries = (await store.read(session, 0)) ?? [];
    expect(entries.map(({ version }) => version)).toEqual(entries.map((_, index) => index + 1));
    const kept = entries.map(({ body }) => body);
    expect(new Set(kept).size, `bodies of ${session} that are there twice`).toBe(kept.length);
    for (const body of bodies) expect(kept, `what was answered to ${session}`).toContain(body);
    expect(bodies.size, `commits of ${session}`).toBeGreaterThan(0);
  }
}

async function progress(answered: Map<string, Set<string>>): Promise<void> {
  const sum = (): number => [...answered.values()].reduce((total, bodies) => total + bodies.size, 0);
  const deadline = Date.now() + 20_000;
  for (const before = sum(); sum() < before + 50; await delay(5)) {
    if (Date.now() > deadline) expect.fail("the writers do not get on");
  }
}

describe("a Postgres store whose server", () => {
  test("is missing is reported in time, and works once it is there", { tags: ["full"] }, async () => {
    const store = open(newUrl());
    await store.append(commitOf("a", 0));
    await server.kill();
    await expectBusy(store);
    const fresh = open(newUrl());
    const waiting = fresh.append(commitOf("a", 0));
    await server.restart();
    expect(await waiting, "a first commit that waited for the server").toBe("ok");
    await expectAllWell(store);
  });

  test("is paused is reported in time, blocks nothing, and works once it resumes", { tags: ["full"] }, async () => {
    const store = open(newUrl());
    await store.append(commitOf("a", 0));
    server.pause();
    await expectBusy(store);
    // Also verbs that arrive while the connections still hang.
    const first = store.read("a", 0).catch(() => {});
    await delay(2000);
    await Promise.all([first, expectBusy(store)]);
    server.resume();
    await expectAllWell(store);
    expect(await store.read("a", 0), "what was in doubt and then repeated is there once").toHaveLength(2);
    expect(await store.append(commitOf("a", 1)), "and a repeat is no second one").toBe("duplicate");
  });

  test("is paused lets a store be closed", { tags: ["full"] }, async () => {
    const store = open(newUrl());
    await store.append(commitOf("a", 0));
    server.pause();
    const start = performance.now();
    const pending = store.append(commitOf("a", 1));
    const rejected = expect(pending).rejects.toMatchObject({ code: "store_busy" });
    await store.close();
    await rejected;
    expect(performance.now() - start).toBeLessThan(6000);
  });

  const disasters: Record<string, () => Promise<unknown>> = {
    "is killed and started again": () => server.kill().then(() => server.restart()),
    "is restarted": () => server.restart(),
    "cuts all connections": () =>
      ask(
        server.url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
      ),
    "is paused for a moment": async () => {
      server.pause();
      await delay(500);
      server.resume();
    },
  };
  for (const [name, disaster] of Object.entries(disasters)) {
    test(`DURABLE: ${name} under load loses no answered commit, and applies none twice`, async () => {
      const url = newUrl();
      const { answered, stop } = writers(open(url), 40);
      for (let round = 0; round < 3; round++) {
        await progress(answered);
        await disaster();
      }
      await progress(answered);
      await stop();
      await expectKept(url, answered);
    });
  }

  test("is out of connections is waited for, and then store_busy", { tags: ["full"] }, async () => {
    // Connections of earlier tests may still be closing.
    const others = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    await expect.poll(() => ask(server.url, others)).toEqual([]);
    const clients: pg.Client[] = [];
    for (;;) {
      const client = await connect().catch(() => undefined);
      if (client === undefined) break;
      clients.push(client);
    }
    expect(clients.length).toBeGreaterThan(5);
    const store = open(newUrl());
    const start = performance.now();
    const message = /has no free connection.*max_connections.*too many clients/;
    await expect(store.count("shop")).rejects.toMatchObject({ code: "store_busy", message });
    expect(performance.now() - start).toBeLessThan(6000);
    const waiting = store.append(commitOf("a", 0));
    await clients.pop()!.end();
    expect(await waiting).toBe("ok");
    expect(await Promise.all(Array.from({ length: 20 }, () => store.count("shop"))), "with one for all").toContain(1);
  });

  test("is out of connections, and then silent, is reported as out of connections", { tags: ["full"] }, async () => {
    const refusal = Buffer.from("SFATAL\0C53300\0Msorry, too many clients already\0\0");
    const length = Buffer.alloc(4);
    length.writeInt32BE(refusal.length + 4);
    let tries = 0;
    const silent = createServer((socket) => {
      socket.on("error", () => {});
      const isFirst = tries++ === 0;
      socket.on("data", () => {
        if (isFirst) socket.end(Buffer.concat([Buffer.from("E"), length, refusal]));
      });
    });
    closed.push(async () => silent.close());
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const store = open(`postgres://holdfast@127.0.0.1:${(silent.address() as AddressInfo).port}/holdfast`);
    const message = /has no free connection.*sorry, too many clients already/;
    await expect(store.count("shop")).rejects.toMatchObject({ code: "store_busy", message });
    // An error of an earlier verb does not apply to this one.
    await expect(store.count("shop")).rejects.toMatchObject({ code: "store_busy", message: /did not answer within/ });
    expect(tries).toBe(3);
  });

  test("is full gives store_full, and writes again when it has room", async () => {
    const url = newUrl();
    const store = open(url);
    await store.append(commitOf("a", 0));
    const schema = new URL(url).searchParams.get("schema");
    await ask(
      url,
      `CREATE FUNCTION ${schema}.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '53100' USING MESSAGE = 'could not extend file: No space left on device'; END $$;
      CREATE TRIGGER no_room BEFORE INSERT ON ${schema}.events EXECUTE FUNCTION ${schema}.no_room()`,
    );
    const commits = [store.append(commitOf("a", 1)), store.append(commitOf("b", 0))];
    for (const commit of commits) await expect(commit).rejects.toMatchObject({ code: "store_full" });
    expect(await store.read("a", 0)).toHaveLength(1);
    expect([await store.read("b", 0), await store.count("shop")]).toEqual([undefined, 1]);
    await ask(url, `DROP TRIGGER no_room ON ${schema}.events`);
    await expectAllWell(store);
  });

  test("is read-only reads, refuses to write, and is replaced by a writable one", async () => {
    const store = open(newUrl());
    await store.append(commitOf("a", 0));
    const readOnly = (on: string) =>
      ask(
        server.url.replace(/holdfast$/, "postgres"),
        `ALTER DATABASE holdfast SET default_transaction_read_only = ${on}`,
      );
    await readOnly("on");
    try {
      await ask(
        server.url,
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'holdfast'",
      );
      await delay(100);
      await expect(store.append(commitOf("a", 1))).rejects.toMatchObject({ code: "store_failed", message: /primary/ });
      expect(await store.read("a", 0)).toHaveLength(1);
      await expect(open(newUrl()).count("shop"), "a schema that is still to be made").rejects.toMatchObject({
        message: /primary/,
      });
    } finally {
      await readOnly("off");
    }
    // The reading connection was made while it was read-only; a refusal closes it.
    await store.append(commitOf("a", 1)).catch(() => {});
    expect(await store.append(commitOf("b", 0))).toBe("ok");
  });

  test(
    "holds a session for another client is store_busy in time, and no statement stays waiting",
    { tags: ["full"] },
    async () => {
      const url = newUrl("&connections=2");
      const store = open(url);
      await store.append(commitOf("a", 0));
      await store.append(commitOf("b", 0));
      const other = await connect();
      await other.query(
        `BEGIN; SELECT 1 FROM ${new URL(url).searchParams.get("schema")}.sessions WHERE id = 'a' FOR UPDATE`,
      );
      const start = performance.now();
      const held = store.append(commitOf("a", 1));
      const rejected = expect(held).rejects.toMatchObject({
        code: "store_busy",
        message: /because other clients hold locks/,
      });
      expect(await store.read("a", 0), "reading waits for nobody").toHaveLength(1);
      await rejected;
      expect(performance.now() - start).toBeLessThan(5000);
      const waiting = await ask(server.url, "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
      expect(waiting).toEqual([]);
      await other.query("ROLLBACK");
      expect(await store.append(commitOf("a", 1))).toBe("ok");
    },
  );

  test("stops slow statements is store_busy", { tags: ["full"] }, async () => {
    const url = newUrl();
    const store = open(`${url}&statement_timeout=300`);
    await store.append(commitOf("a", 0));
    const other = await connect();
    await other.query(
      `BEGIN; SELECT 1 FROM ${new URL(url).searchParams.get("schema")}.sessions WHERE id = 'a' FOR UPDATE`,
    );
    await expect(store.append(commitOf("a", 1))).rejects.toMatchObject({
      code: "store_busy",
      message: /statement timeout/,
    });
    await other.query("ROLLBACK");
    expect(await store.append(commitOf("a", 1))).toBe("ok");
  });

  test(
    "rejects the user, the password or the database says which, at once, and never shows the password",
    { tags: ["full"] },
    async () => {
      const [{ hba_file: file } = { hba_file: "" }] = await ask<{ hba_file: string }>(server.url, "SHOW hba_file");
      const before = readFileSync(file, "utf8");
      await ask(server.url, "CREATE ROLE careful LOGIN PASSWORD 'right'");
      writeFileSync(file, "host all careful 127.0.0.1/32 scram-sha-256\n");
      appendFileSync(file, before);
      await ask(server.url, "SELECT pg_reload_conf()");
      const wrong = [
        [newUrl("", server.url.replace("holdfast@", "careful:xyzzy@")), /user name and password/],
        [newUrl("", server.url.replace("holdfast@", "nobody:xyzzy@")), /user name and password/],
        [
          newUrl("", server.url.replace("holdfast@", "holdfast:xyzzy@").replace(/holdfast$/, "nowhere")),
          /does not have this database/,
        ],
      ] as const;
      for (const [url, message] of wrong) {
        const start = performance.now();
        const error: unknown = await open(url)
          .count("shop")
          .catch((error: unknown) => error);
        expect(error).toMatchObject({ code: "store_failed", message });
        expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("xyzzy");
        expect(performance.now() - start).toBeLessThan(3000);
      }
      // Errors that waiting cannot fix fail at once. An absent server is waited for, and the password stays hidden too.
      const unreachable = open("postgres://holdfast:xyzzy@127.0.0.1:1/holdfast");
      const error: unknown = await unreachable.count("shop").catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "store_busy", message: /ECONNREFUSED/ });
      expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("xyzzy");
    },
  );
});

test("DURABLE: PgBouncer and the server behind it may restart under load", { tags: ["full"] }, async () => {
  const bouncer = await startPgBouncer(server.url, { settings: { server_login_retry: 1 } });
  closed.push(() => bouncer.stop());
  const url = newUrl("", bouncer.url);
  const { answered, stop } = writers(open(url), 20);
  await progress(answered);
  await bouncer.kill().then(() => bouncer.restart());
  await progress(answered);
  await server.kill().then(() => server.restart());
  await progress(answered);
  await stop();
  await expectKept(url, answered);
});

test.each([
  ["ERROR", "40001", "nothing"],
  ["FEHLER", "40001", "nothing"],
  ["FATAL", "57P01", "unknown"],
  ["ВАЖНО", "57P01", "unknown"],
  ["PANIC", "XX000", "unknown"],
  ["PÁNICO", "XX000", "unknown"],
  ["ERROR", "XX000", "nothing"],
])("DURABLE: a server that answers %s %s has changed %s, in whatever language it speaks", (severity, code, effect) => {
  expect(faultOf(Object.assign(new Error("x"), { severity, code })).effect).toBe(effect);
});

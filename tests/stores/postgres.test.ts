// The Postgres store passes the shared cases, directly and through PgBouncer, and its schema is safe beside others.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import { ask, dropSchema, startPgBouncer, startPostgres } from "../../tools/servers/postgres.mjs";
import type { StoreHarness } from "../../src/testing/index.ts";
import { built } from "../built.ts";
import { startOnce } from "../shared.ts";
import { runStoreCases } from "./run-cases.ts";

// No test here ends the server, so that it need not wait for the disk.
const server = await startPostgres({ settings: { fsync: "off" } });
const bouncer = startOnce(() => startPgBouncer(server.url));
const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-test-"));
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server.stop();
});

let made = 0;
const newSchema = (): string => `schema ${made++} "of" o'test`;
const urlOf = (schema: string, url = server.url): string => `${url}?schema=${encodeURIComponent(schema)}`;

function harnessAt(url: string): StoreHarness {
  const schema = newSchema();
  return {
    open: () => postgresStore({ url: urlOf(schema, url) }),
    dispose: () => dropSchema(server.url, schema),
  };
}

runStoreCases("postgres, directly", () => harnessAt(server.url));
const throughBouncer = async (): Promise<StoreHarness> => harnessAt((await bouncer()).url);
runStoreCases("postgres, through PgBouncer in transaction mode", throughBouncer, { tags: ["full"] });

function commitOf(session: string, version: number, body = `"${version + 1}"`): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: 1 } } : {};
  return { session, version, entries: [{ body, at: version }], ...heading };
}

async function using<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = postgresStore({ url });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** Runs a program in a separate process. It has `postgresStore` and `report`, whose lines are returned. */
async function child(program: string): Promise<unknown[]> {
  const source = pathToFileURL(join(await built(), "stores/postgres.js")).href;
  const script = join(folder, `${made++}.mjs`);
  const report = 'const report = (line) => process.stdout.write(JSON.stringify(line) + "\\n");';
  writeFileSync(script, `import { postgresStore } from ${JSON.stringify(source)};\n${report}\n${program}`);
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [script], { timeout: 30_000 }, (error, stdout, stderr) => {
      if (error) reject(new Error(stderr, { cause: error }));
      else resolve(stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as unknown])));
    });
  });
}

describe("the schema of a Postgres store", () => {
  test("may be created by ten processes at once, and by ten stores at once", async () => {
    const [first, second] = [urlOf(newSchema()), urlOf(newSchema())];
    const program = `const store = postgresStore({ url: ${JSON.stringify(first)} });
      const heading = { environment: "shop", opened: 1 };
      report(await store.append({ session: "s" + process.pid, version: 0, entries: [{ body: "1", at: 1 }], heading }));
      await store.close();`;
    const answers = await Promise.all(Array.from({ length: 10 }, () => child(program)));
    expect(answers.flat()).toEqual(Array.from({ length: 10 }, () => "ok"));
    expect(await using(first, (store) => store.count("shop"))).toBe(10);
    const stores = Array.from({ length: 10 }, () => postgresStore({ url: second }));
    const all = await Promise.all(stores.map((store, index) => store.append(commitOf(`s${index}`, 0))));
    expect(all).toEqual(Array.from({ length: 10 }, () => "ok"));
    for (const store of stores) expect(await store.count("shop")).toBe(10);
    await Promise.all(stores.map((store) => store.close()));
  });

  test("is `holdfast` unless the URL names another, and coexists with others in one database", async () => {
    await using(server.url, (store) => store.append(commitOf("a", 0)));
    expect(await ask(server.url, "SELECT id FROM holdfast.sessions")).toEqual([{ id: "a" }]);
    expect(await using(urlOf(newSchema()), (store) => store.read("a", 0))).toBe(undefined);
    await dropSchema(server.url, "holdfast");
  });

  test("may contain foreign tables, but not with our names, and is left untouched then", async () => {
    await ask(server.url, "CREATE SCHEMA beside; CREATE TABLE beside.orders (a integer)");
    expect(await using(urlOf("beside"), (store) => store.append(commitOf("a", 0)))).toBe("ok");
    for (const table of ["sessions", "events", "holdfast"]) {
      const schema = `foreign_${table}`;
      await ask(server.url, `CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.${table} (a integer)`);
      await using(urlOf(schema), async (store) => {
        const error = { code: "store_corrupt", message: expect.stringContaining("?schema=") as string };
        await expect(store.append(commitOf("a", 0))).rejects.toMatchObject(error);
        await expect(store.count("shop")).rejects.toMatchObject(error);
      });
      const tables = await ask(server.url, `SELECT tablename FROM pg_tables WHERE schemaname = '${schema}'`);
      expect(tables).toEqual([{ tablename: table }]);
    }
  });

  test("that is newer is refused and left untouched", async () => {
    await using(urlOf("newer"), (store) => store.append(commitOf("a", 0)));
    await ask(server.url, "UPDATE newer.holdfast SET version = 99");
    await using(urlOf("newer"), async (store) => {
      await expect(store.append(commitOf("b", 0))).rejects.toMatchObject({ code: "store_newer" });
      await expect(store.read("a", 0)).rejects.toMatchObject({ code: "store_newer" });
    });
    expect(await ask(server.url, "SELECT id FROM newer.sessions")).toEqual([{ id: "a" }]);
    expect(await ask(server.url, "SELECT version FROM newer.holdfast")).toEqual([{ version: 99 }]);
  });

  test("is not created in a database that cannot store every text", async () => {
    await ask(server.url, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    await using(server.url.replace(/holdfast$/, "latin"), (store) =>
      expect(store.count("shop")).rejects.toMatchObject({ code: "store_failed", message: /LATIN1.*UTF8/ }),
    );
  });

  test("is not created without the privilege, with a message that says so", async () => {
    await ask(server.url, "CREATE ROLE guest LOGIN");
    await using(server.url.replace("holdfast@", "guest@"), (store) =>
      expect(store.count("shop")).rejects.toMatchObject({
        code: "store_failed",
        message: /needs the CREATE privilege/,
      }),
    );
    await ask(server.url, "CREATE SCHEMA guests AUTHORIZATION guest");
    const url = urlOf("guests", server.url.replace("holdfast@", "guest@"));
    expect(await using(url, (store) => store.append(commitOf("a", 0))), "in a schema of its own").toBe("ok");
  });
});

describe("a Postgres store", () => {
  test("keeps texts that Postgres cannot store, apart from similar ones", async () => {
    const texts = [
      "a\0",
      "a\u0001",
      "a\u00010000",
      "a\\u0000",
      "\ud800",
      "\udc00\ud800",
      "🦀\ud83e",
      "a\ufffd",
      "\u0001\0",
    ];
    await using(urlOf(newSchema()), async (store) => {
      for (const [index, text] of texts.entries()) {
        const commit = commitOf(text, 0, text);
        commit.entries[0].key = text;
        commit.snapshot = { version: 1, body: text };
        commit.heading = { environment: text, opened: 1, parent: { session: text, version: 1 } };
        expect(await store.append(commit)).toBe("ok");
        expect(await store.count(text), `count of text ${index}`).toBe(1);
      }
      for (const text of texts) {
        expect(await store.read(text, 0)).toMatchObject([{ version: 1, body: text }]);
        expect(await store.load(text)).toMatchObject({ version: 1, snapshot: { version: 1, body: text }, entries: [] });
        expect(await store.find(text, text)).toMatchObject({ version: 1, body: text, key: text });
      }
      const rows = [];
      for await (const row of store.list()) rows.push(row);
      expect(rows.map((row) => row.session)).toEqual(texts);
      expect(rows.map((row) => row.environment)).toEqual(texts);
      expect(rows.map((row) => row.parent?.session)).toEqual(texts);
    });
  });

  test("accepts keys of any length, and refuses duplicates of them", async () => {
    const key = Array.from({ length: 20_000 }, (_, index) => (index * 7919).toString(36)).join("");
    await using(urlOf(newSchema()), async (store) => {
      const append = (version: number, key: string) =>
        store.append({ ...commitOf("a", version), entries: [{ body: "1", at: 1, key }] });
      expect(await append(0, key)).toBe("ok");
      expect(await append(1, key)).toBe("duplicate");
      expect(await append(1, `${key}!`)).toBe("ok");
      expect((await store.find("a", key))?.version).toBe(1);
    });
  });

  test("lets its process exit after close, and not before its writes are done", async () => {
    const url = urlOf(newSchema());
    const [answer] = await child(`const store = postgresStore({ url: ${JSON.stringify(url)} });
      const commit = { session: "a", version: 0, entries: [{ body: "1", at: 1 }], heading: { environment: "shop", opened: 1 } };
      store.append(commit).then(report);
      await store.close();`);
    expect(answer).toBe("ok");
    expect(await using(url, (store) => store.count("shop"))).toBe(1);
  });

  test("refuses an invalid URL, and shows no password", () => {
    const wrong = ["", "postgres", "mysql://u:secret@h/d", "postgres://h/d?schema=", "postgres://h/d?schema=a$b"];
    for (const url of [...wrong, "postgres://u:secret@h/d?connections=0", "postgres://u:secret@h:port/d"]) {
      expect(() => postgresStore({ url }), url).toThrow(
        expect.objectContaining({ code: "invalid_option", message: expect.not.stringContaining("secret") as string }),
      );
    }
  });
});

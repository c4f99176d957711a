// The SQLite store passes the shared cases, and its file survives other processes, full disks and wrong files.
import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { built } from "../built.ts";
import { runStoreCases } from "./run-cases.ts";

const parent = mkdtempSync(join(tmpdir(), "holdfast-sqlite-"));
let folders = 0;
afterAll(() => rmSync(parent, { recursive: true, force: true }));

/** The path of a missing file in a new folder. */
function newFile(): string {
  const folder = join(parent, `${folders++}`);
  mkdirSync(folder);
  return join(folder, "sessions.db");
}

for (const { durability, tags } of [
  { durability: "process", tags: [] },
  { durability: "power", tags: ["full"] },
] as const) {
  runStoreCases(
    `sqlite, durability ${durability}`,
    () => {
      const file = newFile();
      return { open: () => sqliteStore({ file, durability }) };
    },
    { tags },
  );
}

interface Raw {
  exec(sql: string): unknown;
  prepare(sql: string): { get(): unknown };
  close(): unknown;
}

// The driver that the store would use, as text: it is part of the program of children.
const driver = `const { DatabaseSync } = process.getBuiltinModule?.("node:sqlite") ?? require("@photostructure/sqlite");
  const connect = (file) => new DatabaseSync(file);`;

/** Opens the file without the store. */
function raw(file: string): Raw {
  const connect = new Function("require", `${driver} return connect;`) as (
    load: NodeJS.Require,
  ) => (file: string) => Raw;
  return connect(createRequire(import.meta.url))(file);
}

function change(file: string, sql: string): void {
  const database = raw(file);
  database.exec(sql);
  database.close();
}

function commitOf(session: string, version: number, body = `"${version + 1}"`, key?: string, at = version): Commit {
  const heading = version === 0 ? { heading: { environment: "shop", opened: at } } : {};
  return { session, version, entries: [{ body, at, ...(key !== undefined && { key }) }], ...heading };
}

async function fill(file: string, sessions = 200): Promise<void> {
  const store = sqliteStore({ file });
  const answers = await Promise.all(
    Array.from({ length: sessions }, (_, index) => store.append(commitOf(`s${index}`, 0, `"${"x".repeat(500)}"`))),
  );
  expect(new Set(answers)).toEqual(new Set(["ok"]));
  await store.close();
}

async function idsOf(list: AsyncIterable<{ session: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { session } of list) ids.push(session);
  return ids;
}

/**
 * Runs a program in a separate process. It has `sqliteStore`, `connect`, `file` and `report`, whose lines are returned.
 */
async function child(file: string, program: string, shell = ""): Promise<unknown[]> {
  const source = await built();
  const code = `import { createRequire } from "node:module";
    import { sqliteStore } from ${JSON.stringify(pathToFileURL(join(source, "stores/sqlite.js")).href)};
    const require = createRequire(${JSON.stringify(join(source, "x.js"))});
    ${driver}
    const file = ${JSON.stringify(file)};
    const report = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
    ${program}`;
  const script = join(parent, `${folders++}.mjs`);
  writeFileSync(script, code);
  return new Promise((resolve, reject) => {
    execFile("bash", ["-c", `${shell} exec "$0" "$1"`, process.execPath, script], (error, stdout, stderr) => {
      if (error && error.signal !== "SIGKILL") reject(new Error(stderr, { cause: error }));
      else resolve(stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as unknown])));
    });
  });
}

describe("the file of a SQLite store", () => {
  test("is created if it is missing or empty", async () => {
    const empty = newFile();
    writeFileSync(empty, "");
    for (const file of [newFile(), empty]) {
      await fill(file, 3);
      const database = raw(file);
      expect(Object.values(database.prepare("PRAGMA application_id").get() as object)).toEqual([0x686f6c64]);
      expect(Object.values(database.prepare("PRAGMA user_version").get() as object)).toEqual([2]);
      database.close();
    }
  });

  test("is private to its owner when it is created, with its log; an existing file keeps its mode", async () => {
    const umask = process.umask(0o022);
    try {
      const modes = (file: string) => ["", "-wal", "-shm"].map((end) => statSync(`${file}${end}`).mode & 0o777);
      const file = newFile();
      const store = sqliteStore({ file });
      await store.append(commitOf("a", 0));
      expect(modes(file)).toEqual([0o600, 0o600, 0o600]);
      await store.close();
      const shared = newFile();
      writeFileSync(shared, "", { mode: 0o644 });
      const other = sqliteStore({ file: shared });
      await other.append(commitOf("a", 0));
      expect(modes(shared)).toEqual([0o644, 0o644, 0o644]);
      await other.close();
    } finally {
      process.umask(umask);
    }
  });

  test("may be created by ten processes and ten handles at once", async () => {
    const file = newFile();
    const handles = Array.from({ length: 10 }, () => sqliteStore({ file }));
    const fresh = newFile();
    const program = `const store = sqliteStore({ file });
      const heading = { environment: "shop", opened: 1 };
      report(await store.append({ session: "s" + process.pid, version: 0, entries: [{ body: "1", at: 1 }], heading }));
      await store.close();`;
    const answers = await Promise.all(Array.from({ length: 10 }, () => child(fresh, program)));
    expect(answers.flat()).toEqual(Array.from({ length: 10 }, () => "ok"));
    for (const [index, store] of handles.entries()) expect(await store.append(commitOf(`s${index}`, 0))).toBe("ok");
    for (const store of handles) {
      expect(await store.count("shop")).toBe(10);
      await store.close();
    }
    const store = sqliteStore({ file: fresh });
    expect(await store.count("shop")).toBe(10);
    await store.close();
  });

  test("opens even if its creator was killed while creating it", async () => {
    const file = newFile();
    await child(
      file,
      `const db = connect(file);
      db.exec("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE; PRAGMA application_id = 1751870564; CREATE TABLE sessions (a)");
      for (let i = 0; i < 200; i++) db.exec("INSERT INTO sessions VALUES (randomblob(3000))");
      process.kill(process.pid, "SIGKILL");`,
    );
    expect(existsSync(`${file}-journal`)).toBe(true);
    await fill(file, 3);
  });

  test("is a single file after the last store on it was closed", async () => {
    const file = newFile();
    const [first, second] = [sqliteStore({ file }), sqliteStore({ file })];
    await first.append(commitOf("a", 0));
    expect(existsSync(`${file}-wal`)).toBe(true);
    await first.close();
    await second.append(commitOf("a", 1));
    await second.close();
    expect(existsSync(`${file}-wal`)).toBe(false);
  });

  test("is refused and left untouched when it is newer, also when only its log says so", async () => {
    const file = newFile();
    await fill(file);
    change(file, "PRAGMA user_version = 3");
    const before = readFileSync(file);
    expect(() => sqliteStore({ file })).toThrow(expect.objectContaining({ code: "store_newer" }));
    expect(readFileSync(file).equals(before)).toBe(true);

    const killed = newFile();
    await fill(killed);
    await child(killed, `connect(file).exec("PRAGMA user_version = 7"); process.kill(process.pid, "SIGKILL");`);
    const [main, log] = [readFileSync(killed), readFileSync(`${killed}-wal`)];
    expect(log.length).toBeGreaterThan(0);
    expect(() => sqliteStore({ file: killed })).toThrow(expect.objectContaining({ code: "store_newer" }));
    expect(readFileSync(killed).equals(main)).toBe(true);
    expect(readFileSync(`${killed}-wal`).equals(log)).toBe(true);
  });

  test.each<[string, (file: string) => void | Promise<void>]>([
    ["text", (file) => writeFileSync(file, "these are my notes, not a database\n".repeat(100))],
    ["a short text", (file) => writeFileSync(file, "hello")],
    ["another program's database", (file) => change(file, "CREATE TABLE notes (a); INSERT INTO notes VALUES (1)")],
    ["another program's empty database", (file) => change(file, "PRAGMA application_id = 77; VACUUM")],
    [
      "a file that was cut off",
      async (file) => {
        await fill(file);
        truncateSync(file, 20_000);
      },
    ],
    [
      "a file whose schema is damaged",
      async (file) => {
        await fill(file);
        const bytes = readFileSync(file);
        writeFileSync(file, bytes.fill(0xa5, 100, 4096));
      },
    ],
  ])("is refused with store_corrupt and left untouched when it is %s", async (_, make) => {
    const file = newFile();
    await make(file);
    const before = readFileSync(file);
    expect(() => sqliteStore({ file })).toThrow(expect.objectContaining({ code: "store_corrupt" }));
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test("that is damaged further in is store_corrupt for readers of the damage", async () => {
    const file = newFile();
    await fill(file);
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.fill(0xa5, 16 * 4096));
    const store = sqliteStore({ file });
    const reads = Array.from({ length: 200 }, (_, index) => store.read(`s${index}`, 0));
    const failed = (await Promise.allSettled(reads)).filter(({ status }) => status === "rejected");
    expect(failed.length).toBeGreaterThan(0);
    expect(failed[0]).toMatchObject({ reason: { code: "store_corrupt" } });
    await store.close();
  });

  test("needs a folder, and a path", () => {
    const file = join(parent, "none", "sessions.db");
    expect(() => sqliteStore({ file })).toThrow(expect.objectContaining({ code: "store_failed" }));
    expect(() => sqliteStore({ file })).toThrow(/folder does not exist; create .*none first/);
    expect(() => sqliteStore({ file: parent })).toThrow(expect.objectContaining({ code: "store_failed" }));
    expect(() => sqliteStore({ file: ":memory:" })).toThrow(/memoryStore/);
    expect(() => sqliteStore({ file: "" })).toThrow(expect.objectContaining({ code: "invalid_option" }));
  });
});

test("a full disk fails the commit with store_full; answered commits stay, and new ones work once there is room", async () => {
  const file = newFile();
  const lines = (await child(
    file,
    `const store = sqliteStore({ file });
    const body = JSON.stringify("x".repeat(20_000));
    const heading = { environment: "shop", opened: 1 };
    let version = 0;
    for (;;) {
      const pair = ["a", "b"].map((session) => ({ session, version, entries: [{ body, at: 1, key: "k" + version }], heading }));
      const answers = await Promise.allSettled(pair.map((commit) => store.append(commit)));
      if (answers.some(({ status }) => status === "rejected")) {
        report(answers.map(({ value, reason }) => value ?? reason.code));
        break;
      }
      version++;
    }
    const found = await Promise.all(["a", "b"].map((session) => store.find(session, "k" + version)));
    const logs = await Promise.all(["a", "b"].map(async (session) => (await store.read(session, 0)).length));
    report({ version, found: found.filter(Boolean).length, logs });
    await store.close();
    report("closed");`,
    "ulimit -f 2000;",
  )) as [unknown, { version: number }, unknown];
  const { version } = lines[1];
  expect(version).toBeGreaterThan(5);
  expect(lines).toEqual([["store_full", "store_full"], { version, found: 0, logs: [version, version] }, "closed"]);

  const store = sqliteStore({ file });
  for (const session of ["a", "b"]) {
    expect((await store.read(session, 0))?.length).toBe(version);
    expect(await store.append(commitOf(session, version, "1", `k${version}`))).toBe("ok");
  }
  await store.close();
});

describe("another process that holds the file", () => {
  test("is waited for, without blocking this process", async () => {
    const file = newFile();
    const store = sqliteStore({ file });
    const other = raw(file);
    other.exec("BEGIN IMMEDIATE");
    let turns = 0;
    const timer = setInterval(() => turns++, 5);
    const answer = store.append(commitOf("a", 0));
    await delay(300);
    other.exec("COMMIT");
    expect(await answer).toBe("ok");
    clearInterval(timer);
    expect(turns).toBeGreaterThan(10);
    other.close();
    await store.close();
  });

  test("for too long is store_busy; reads continue, and so does the store afterwards", { tags: ["full"] }, async () => {
    const file = newFile();
    const store = sqliteStore({ file });
    await store.append(commitOf("a", 0));
    const other = raw(file);
    other.exec("BEGIN IMMEDIATE");
    const answers = Promise.allSettled([store.append(commitOf("a", 1)), store.append(commitOf("b", 0))]);
    expect(await store.read("a", 0)).toMatchObject([{ version: 1, body: '"1"' }]);
    const busy = { status: "rejected", reason: expect.objectContaining({ code: "store_busy" }) as unknown };
    expect(await answers).toEqual([busy, busy]);
    other.exec("COMMIT");
    other.close();
    expect(await store.append(commitOf("a", 1))).toBe("ok");
    await store.close();
  });
});

test("SERIAL, ONCE: four processes on shared and own sessions lose nothing and repeat nothing", async () => {
  const file = newFile();
  const store = sqliteStore({ file });
  const shared = ["x", "y"];
  for (const session of shared) await store.append(commitOf(session, 0));
  const program = `const store = sqliteStore({ file });
    const me = process.pid;
    let conflicts = 0;
    async function insist(session, text, key) {
      for (;;) {
        const version = (await store.read(session, 0))?.length ?? 0;
        const commit = { session, version, entries: [{ body: JSON.stringify(text), at: version, key }] };
        const heading = { environment: "shop", opened: 1 };
        const answer = await store.append(version === 0 ? { ...commit, heading } : commit);
        if (answer !== "conflict") return answer;
        conflicts++;
      }
    }
    const own = Array.from({ length: 5 }, async (_, line) => {
      for (let i = 0; i < 40; i++) await insist(me + " " + line, me + " " + i, "k" + i);
    });
    const both = ["x", "y"].map(async (session) => {
      for (let i = 0; i < 40; i++) await insist(session, me + " " + i, me + " " + i);
    });
    // Every process also tries the same keys: each of them gets in once.
    let firsts = 0;
    for (let i = 0; i < 40; i++) if (await insist("x", "same " + i, "same " + i) === "ok") firsts++;
    await Promise.all([...own, ...both]);
    await store.close();
    report({ me, conflicts, firsts });`;
  const reports = (await Promise.all(Array.from({ length: 4 }, () => child(file, program)))).flat() as {
    me: number;
    conflicts: number;
    firsts: number;
  }[];
  expect(reports.length).toBe(4);
  expect(reports.reduce((sum, { firsts }) => sum + firsts, 0)).toBe(40);
  const texts = async (session: string): Promise<string[]> =>
    ((await store.read(session, 0)) ?? []).map(({ body }) => JSON.parse(body) as string);
  const forty = Array.from({ length: 40 }, (_, index) => index);
  const everyone = reports.flatMap(({ me }) => forty.map((index) => `${me} ${index}`));
  const same = forty.map((index) => `same ${index}`);
  expect((await texts("x")).toSorted()).toEqual(["1", ...everyone, ...same].toSorted());
  expect((await texts("y")).toSorted()).toEqual(["1", ...everyone].toSorted());
  for (const { me } of reports) {
    for (let line = 0; line < 5; line++) {
      expect(await texts(`${me} ${line}`)).toEqual(forty.map((index) => `${me} ${index}`));
    }
  }
  await store.close();
});

describe("the order of idleness", () => {
  /** 700 sessions, touched at random, as commits leave the file. */
  async function busy(store: Store): Promise<Map<string, number>> {
    const touched = new Map<string, number>();
    const versions = new Map<string, number>();
    let state = 1;
    for (let at = 0; at < 3000; at++) {
      state = (state * 48271) % 2147483647;
      const session = `s${at < 700 ? at : state % 700}`;
      const version = versions.get(session) ?? 0;
      await store.append(commitOf(session, version, "1", undefined, at));
      versions.set(session, version + 1);
      touched.set(session, at);
    }
    return touched;
  }

  test("is right although commits do not maintain it, the first time and the next", async () => {
    const store = sqliteStore({ file: newFile() });
    const touched = await busy(store);
    const order = [...touched].sort((a, b) => a[1] - b[1]);
    const all = order.map(([session]) => session);
    const idle = order.flatMap(([session, at]) => (at < 2000 ? [session] : []));
    const filter = { environment: "shop", open: true };
    expect(await idsOf(store.list({ ...filter, idleBefore: 2000 }))).toEqual(idle);
    expect(await idsOf(store.list({ ...filter, idleBefore: Infinity }))).toEqual(all);
    expect(await idsOf(store.list({ idleBefore: Infinity }))).toEqual(all);
    await store.close();
  });

  test("is updated only as far as a reader looks", async () => {
    const file = newFile();
    const store = sqliteStore({ file });
    for (let at = 0; at < 700; at++) await store.append(commitOf(`s${at}`, 0, "1", undefined, at));
    for (let at = 0; at < 700; at++)
      await store.append(commitOf(`s${at}`, 1, "1", undefined, at === 2 ? 2 : 1000 + at));
    for await (const { session } of store.list({ environment: "shop", open: true, idleBefore: Infinity })) {
      expect(session).toBe("s2");
      break;
    }
    const database = raw(file);
    const behind = "SELECT count(*) AS n FROM sessions WHERE touched < 700";
    expect((database.prepare(behind).get() as { n: number }).n).toBeGreaterThan(690);
    database.close();
    await store.close();
  });
});

test("ISOLATION: a commit that cannot be written does not fail concurrent ones", async () => {
  const store = sqliteStore({ file: newFile() });
  const results = await Promise.allSettled(
    [1, Number.NaN, 3].map((opened, n) =>
      store.append({
        session: `s${n}`,
        version: 0,
        heading: { environment: "e", opened },
        entries: [{ at: 1, body: "{}" }],
      }),
    ),
  );
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(await store.read("s2", 0)).toHaveLength(1);
  expect(await store.read("s1", 0)).toBeUndefined();
  await store.close();
});

// holdfast sessions copy: every log is copied exactly, on every pair of stores, despite interruptions.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createSessions, defineEnvironment, tool } from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Event } from "../../src/core/event.ts";
import { eventKey } from "../../src/core/event-key.ts";
import type { Commit, Entry, Listed, Store } from "../../src/core/store.ts";
import { keysFromStore } from "../../src/server/tokens.ts";
import { copyLogs } from "../../src/session/copy.ts";
import { httpStore } from "../../src/stores/http.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { run, start } from "../e2e/serve-process.ts";
import { serveStore } from "../stores/http-server.ts";

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-copy-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const kinds: Record<string, () => Store | Promise<Store>> = {
  memory: memoryStore,
  sqlite: async () => sqliteStore({ file: join(await newFolder(), "sessions.db") }),
  http: async () => {
    const { url, dispose } = await serveStore();
    onTestFinished(dispose);
    return httpStore({ url });
  },
};

async function newStore(kind = "memory"): Promise<Store> {
  const store = await (kinds[kind] as () => Store | Promise<Store>)();
  onTestFinished(() => store.close());
  return store;
}

const environment = defineEnvironment({
  name: "notes",
  state: z.object({ lines: z.array(z.string()).default([]) }),
  tools: {
    add: tool({
      description: "Add.",
      input: z.object({ line: z.string() }),
      run: ({ state }, { line }) => state.lines.push(line),
    }),
    send: tool({ description: "Send.", effects: "external", run: () => "sent" }),
  },
  verify: ({ state }) => state.lines.length,
});

/** Sessions of every kind: many kinds of keys, a snapshot, a fork, ended ones, an agent's with shared state, a key. */
async function fill(store: Store): Promise<void> {
  await keysFromStore(store);
  const sessions = createSessions({ environment, store, keepEnded: true });
  const { session: long } = await sessions.open();
  await sessions.seed(long, {}, { call: "seed-1" });
  for (let at = 0; at < 60; at++) {
    await sessions.call(long, "add", { line: `${at} ${"é🦀".repeat(200)}` }, { call: `c${at}` });
  }
  await sessions.call(long, "send", {}, { call: "ext" });
  await sessions.verify(long);
  const fork = await sessions.fork(long, { version: 20 });
  await sessions.call(fork.session, "add", { line: "of the fork" }, { call: "c1" });
  for (let at = 0; at < 25; at++) {
    const { session } = await sessions.open();
    await sessions.call(session, "add", { line: "one" }, { call: "c0" });
    if (at % 3 === 0) await sessions.close(session);
  }
  await sessions.stop();
  const agents = createSessions({ app: "concierge", store });
  await agents.open({ user: "ann", state: { "user:name": "Ann", "app:motd": "hello", own: 1 } });
  await agents.stop();
}

async function rowsOf(store: Store): Promise<Listed[]> {
  const rows: Listed[] = [];
  for await (const row of store.list()) rows.push(row);
  return rows;
}

/** Everything a store returns about its logs, and its results for every key of an event. */
async function portrait(store: Store): Promise<unknown> {
  const rows = await rowsOf(store);
  const logs = [];
  for (const { session } of rows) {
    const entries = (await store.read(session, 0)) as Entry[];
    const keys = entries.flatMap(({ body }) => eventKey(JSON.parse(body) as Event) ?? []);
    const found = await Promise.all(keys.map(async (key) => [key, (await store.find(session, key))?.version]));
    const { mark: _, ...loaded } = (await store.load(session))!;
    logs.push({ session, entries, found, loaded });
  }
  const environments = [...new Set(rows.map(({ environment }) => environment))];
  const idle: string[] = [];
  for await (const { session } of store.list({ idleBefore: Infinity })) idle.push(session);
  const counts = await Promise.all(environments.map((name) => store.count(name)));
  return { rows, logs, environments, counts, idle: idle.toSorted() };
}

const nothing = { copied: 0, equal: 0, entries: 0, problems: [] };

describe.each(Object.keys(kinds))("from %s", (fromKind) => {
  test.each(Object.keys(kinds))("to %s every log is copied exactly, and can be used there", async (toKind) => {
    const [from, to] = [await newStore(fromKind), await newStore(toKind)];
    expect(await copyLogs(from, to)).toEqual(nothing);
    await fill(from);
    const rows = await rowsOf(from);
    expect(new Set(rows.map(({ environment }) => environment))).toEqual(
      new Set(["holdfast:keys", "notes", "agent:concierge", "holdfast:shared"]),
    );
    const entries = rows.reduce((sum, { version }) => sum + version, 0);
    let heard = 0;
    expect(await copyLogs(from, to, () => heard++)).toEqual({ ...nothing, copied: rows.length, entries });
    expect(heard).toBe(rows.length);
    const before = await portrait(from);
    expect(await portrait(to)).toEqual(before);
    const [{ snapshot }] = (before as { logs: { loaded: { snapshot?: unknown } }[] }).logs
      .map(({ loaded }) => loaded)
      .filter(({ snapshot }) => snapshot) as [{ snapshot: unknown }];
    expect(snapshot).toBeDefined();

    expect(await copyLogs(from, to), "again").toEqual({ ...nothing, equal: rows.length });
    expect(await portrait(to)).toEqual(before);

    expect(await keysFromStore(to)).toEqual(await keysFromStore(from));
    const sessions = createSessions({ environment, store: to, keepEnded: true });
    const long = rows.find(({ version }) => version > 50)?.session as string;
    const repeat = await sessions.call(long, "add", { line: `7 ${"é🦀".repeat(200)}` }, { call: "c7" });
    expect(repeat).toMatchObject({ repeated: true, version: 10 });
    expect(await sessions.call(long, "add", { line: "new" }, { call: "new" })).toMatchObject({ output: 61 });
    await sessions.stop();
  });
});

/** A store that behaves differently at some commits. */
function spoiled(store: Store, append: Store["append"]): Store {
  return { ...store, append };
}

describe("copying again", () => {
  test("resumes after an interruption at any commit", async () => {
    const from = await newStore();
    await fill(from);
    const wanted = await portrait(from);
    // Pages of a few bytes would need a log of megabytes; this one has some.
    const sessions = createSessions({ environment, store: from, keepEnded: true });
    const { session } = await sessions.open({});
    for (let at = 0; at < 12; at++) await sessions.call(session, "add", { line: `${at}`.repeat(1_500_000) });
    await sessions.close(session);
    await sessions.stop();
    expect(await portrait(from)).not.toEqual(wanted);
    const whole = await portrait(from);
    const to = await newStore();
    let [runs, half] = [0, 0];
    for (; ; runs++) {
      let left = 3;
      const stopping = spoiled(to, (...commits) => {
        if (left-- > 0) return to.append(...commits);
        return Promise.reject(Object.assign(new Error("killed"), { code: "EKILLED" }));
      });
      const summary = await copyLogs(from, stopping).catch(() => undefined);
      const there = (await rowsOf(to)).find((row) => row.session === session);
      if (there && there.version < 13) {
        half++;
        expect(there.ended, "a log that is not whole has not ended").toBeUndefined();
      }
      if (summary) {
        expect(summary.problems).toEqual([]);
        break;
      }
    }
    expect(runs).toBeGreaterThan(5);
    expect(half).toBeGreaterThan(0);
    expect(await portrait(to)).toEqual(whole);
  });

  test("copies entries and sessions added since", async () => {
    const [from, to] = [await newStore(), await newStore("sqlite")];
    await fill(from);
    await copyLogs(from, to);
    const sessions = createSessions({ environment, store: from, keepEnded: true });
    const open = (await rowsOf(from)).filter(({ environment, ended }) => environment === "notes" && !ended);
    for (const { session } of open.slice(0, 3))
      await sessions.call(session, "add", { line: "later" }, { call: "later" });
    await sessions.close((open[0] as Listed).session);
    await sessions.open();
    await sessions.stop();
    expect(await copyLogs(from, to)).toMatchObject({ copied: 4, entries: 5, problems: [] });
    expect(await portrait(to)).toEqual(await portrait(from));
  });
});

describe("a log that differs in the target", () => {
  const opened = (environment: string, at: number): string =>
    JSON.stringify({ type: "session.opened", at, environment, randomness: { seed: 1, turn: 0 } });
  const closed = (at: number): string => JSON.stringify({ type: "session.closed", at, reason: "closed" });
  const log = (session: string, ...bodies: string[]): Commit => {
    const entries = bodies.map((body) => ({ body, at: (JSON.parse(body) as Event).at }));
    return {
      session,
      version: 0,
      entries: entries as Commit["entries"],
      heading: { environment: "notes", opened: 1, ...(bodies.length > 1 && { ended: "closed" as const }) },
    };
  };

  test.each<[string, Commit, Commit, RegExp]>([
    ["at its start", log("x", opened("notes", 1)), log("x", opened("other", 1)), /first 1 entries are different/],
    ["shorter", log("x", opened("notes", 1), closed(2)), log("x", opened("notes", 3)), /first 1 entries are different/],
    [
      "longer",
      log("x", opened("notes", 1)),
      log("x", opened("notes", 1), closed(2)),
      /the target has version 2, and the source only 1/,
    ],
    [
      "in its heading",
      log("x", opened("notes", 1)),
      { ...log("x", opened("notes", 1)), heading: { environment: "notes", opened: 1, ended: "idle" } },
      /another heading/,
    ],
  ])("%s is named and left unchanged, and the others are copied", async (_, here, there, message) => {
    const [from, to] = [await newStore(), await newStore("sqlite")];
    await from.append(log("before", opened("notes", 1)));
    await from.append(here);
    await from.append(log("behind", opened("notes", 1), closed(5)));
    await to.append(there);
    const before = { row: (await rowsOf(to))[0], entries: await to.read("x", 0) };
    const { copied, problems } = await copyLogs(from, to);
    expect(copied).toBe(2);
    expect(problems).toEqual([{ session: "x", fate: "differs", message: expect.stringMatching(message) as string }]);
    expect({ row: (await rowsOf(to))[0], entries: await to.read("x", 0) }).toEqual(before);
  });

  test("does not stop the others, and entries that this version cannot read are copied as they are", async () => {
    const bodies: Record<string, string> = {
      "no JSON": "{",
      "no event": "null",
      "of a later version": '{"type":"session.teleported","at":1}',
      "without a time": '{"type":"session.opened","environment":"notes","randomness":{"seed":1,"turn":0}}',
    };
    const [from, to] = [await newStore(), await newStore()];
    for (const [session, body] of Object.entries(bodies)) {
      const heading = { environment: "notes", opened: 1 };
      await from.append({ session, version: 0, entries: [{ body, at: 1, key: "k" }], heading });
    }
    await from.append(log("taken", opened("notes", 1)));
    await to.append(log("taken", opened("others", 1)));
    await from.append(log("good", opened("notes", 1)));
    const { copied, problems } = await copyLogs(from, to);
    expect(copied).toBe(5);
    expect(problems).toMatchObject([{ session: "taken", fate: "differs" }]);
    for (const [session, body] of Object.entries(bodies)) {
      expect(await to.find(session, "k")).toEqual({ version: 1, body, at: 1, key: "k" });
    }
  });

  test("because others write to it during the copy is reported", async () => {
    const [from, to] = [await newStore(), await newStore()];
    await from.append(log("x", opened("notes", 1)));
    const rival = spoiled(to, async (commit) => {
      await to.append(log("x", opened("other", 1)));
      return to.append(commit);
    });
    expect((await copyLogs(from, rival)).problems).toMatchObject([{ session: "x", fate: "differs" }]);
  });

  test.each<[string, (commit: Commit) => Commit]>([
    ["another body", (commit) => ({ ...commit, entries: [{ ...commit.entries[0], body: opened("notes", 2) }] })],
    ["another time", (commit) => ({ ...commit, entries: [{ ...commit.entries[0], at: 2 }] })],
    ["no parent", (commit) => ({ ...commit, heading: { environment: "notes", opened: 1 } })],
  ])("because the store keeps %s than it was given is found out", async (_, change) => {
    const [from, to] = [await newStore(), await newStore()];
    const commit = log("x", opened("notes", 1));
    await from.append({
      ...commit,
      heading: { environment: "notes", opened: 1, parent: { session: "p", version: 3 } },
    });
    const careless = spoiled(to, (commit) => to.append(change(commit)));
    expect((await copyLogs(from, careless)).problems).toMatchObject([{ session: "x", fate: "failed" }]);
  });

  test("because the source changes during the copy is reported, and mended by copying again", async () => {
    const [from, to] = [await newStore(), await newStore()];
    for (const session of ["a", "b", "c"]) await from.append(log(session, opened("notes", 1)));
    let isFirst = true;
    const busy = spoiled(to, async (commit) => {
      if (isFirst) {
        isFirst = false;
        await from.append({ session: "a", version: 1, entries: [{ body: closed(2), at: 2 }] });
        await from.delete("b");
        await from.append(log("d", opened("notes", 1)));
      }
      return to.append(commit);
    });
    const { problems } = await copyLogs(from, busy);
    expect(problems.map(({ session, fate }) => [session, fate])).toEqual([
      ["a", "changed"],
      ["b", "changed"],
      ["d", "changed"],
    ]);
    expect((await copyLogs(from, to)).problems).toEqual([]);
    expect((await copyLogs(from, to)).copied).toBe(0);
  });
});

describe("the command", () => {
  async function filled(sessions: number): Promise<{ from: string; to: string; folder: string }> {
    const folder = await newFolder();
    const store = sqliteStore({ file: join(folder, "from.db") });
    await fill(store);
    const engine = createSessions({ environment, store, keepEnded: true });
    for (let at = 0; at < sessions; at++) await engine.open();
    await engine.stop();
    await store.close();
    return { folder, from: `sqlite:${join(folder, "from.db")}`, to: `sqlite:${join(folder, "to.db")}` };
  }

  async function expectSame(from: string, to: string): Promise<void> {
    const stores = [from, to].map((url) => sqliteStore({ file: url.slice("sqlite:".length) }));
    const [first, second] = await Promise.all(stores.map(portrait));
    expect(second).toEqual(first);
    await Promise.all(stores.map((store) => store.close()));
  }

  test("copies, reports its work, and exits 0; a second copy finds everything present", async () => {
    const { from, to } = await filled(0);
    const first = await run("sessions", "copy", from, to);
    expect(first).toEqual({
      code: 0,
      stdout: "copied 31 logs and found 0 already copied; all digests match\nwrote 132 entries\n",
      stderr: "",
    });
    const again = await run("sessions", "copy", from, to, "--json");
    expect({ ...again, stdout: JSON.parse(again.stdout) as unknown }).toEqual({
      code: 0,
      stdout: { ...nothing, equal: 31 },
      stderr: "",
    });
    await expectSame(from, to);
  });

  test("names differences and exits 1", async () => {
    const { from, to } = await filled(0);
    const store = sqliteStore({ file: to.slice("sqlite:".length) });
    await store.append({
      session: "holdfast:keys",
      version: 0,
      entries: [{ body: "{}", at: 1 }],
      heading: { environment: "x", opened: 1 },
    });
    await store.close();
    const { code, stdout } = await run("sessions", "copy", from, to);
    expect(code).toBe(1);
    expect(stdout).toContain(
      "\n1 log not copied, because the target store has a different log with the same id; delete that log and run the command again:\n  holdfast:keys: its",
    );
  });

  test("DURABLE: after kill -9 in the middle, a second run completes the copy", async () => {
    const { from, to } = await filled(3000);
    let whole = 0;
    for (let kills = 0; kills < 3; kills++) {
      const copying = await start(["sessions", "copy", from, to]);
      const store = sqliteStore({ file: to.slice("sqlite:".length) });
      while ((await store.count("notes")) < (kills + 1) * 300) await delay(2);
      copying.process.kill("SIGKILL");
      await store.close();
      const { code } = await copying.ended;
      if (code === 0) whole++;
    }
    expect(whole, "runs that were over before they were killed").toBe(0);
    const { code, stdout } = await run("sessions", "copy", from, to, "--json");
    expect(code).toBe(0);
    const { copied, equal, problems } = JSON.parse(stdout) as { copied: number; equal: number; problems: unknown[] };
    expect(problems).toEqual([]);
    expect(copied + equal).toBe(3031);
    expect(equal).toBeGreaterThan(800);
    await expectSame(from, to);
  });

  test.each<[string[], string]>([
    [["sqlite:a.db", "sqlite:./a.db"], "invalid_option: the two stores are the same"],
    [["https://me@example.com/a", "https://example.com/a/"], "invalid_option: the two stores are the same"],
    [["memory:", "sqlite:a.db"], "invalid_option: memory: cannot be copied"],
    [["sqlite:a.db", "memory:"], "invalid_option: memory: cannot be copied"],
    [["sqlite:nowhere/none.db", "sqlite:b.db"], "invalid_option: the file nowhere/none.db does not exist"],
    [["somewhere", "sqlite:b.db"], 'invalid_option: "somewhere" is not a valid store URL'],
    [["sqlite:b.db"], "invalid_option: missing required argument 'to'"],
  ])("%j is refused in one line", async (args, message) => {
    const { code, stdout, stderr } = await run("sessions", "copy", ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr.slice(0, message.length)).toBe(message);
  });

  test("has help with an example", async () => {
    const { code, stdout } = await run("sessions", "copy", "--help");
    expect(code).toBe(0);
    expect(stdout).toContain("$ npx holdfast sessions copy sqlite:sessions.db https://example.com/store");
  });
});

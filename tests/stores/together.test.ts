// Commits appended together: every store agrees with a model of ten lines, and killed processes tear none apart.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import type { Store } from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Appended, Commit } from "../../src/core/store.ts";
import { sqliteStore } from "../../src/stores/sqlite.ts";
import { built } from "../built.ts";
import { everyStore } from "../every-store.ts";
import { runs } from "../runs.ts";

const names = ["a", "b", "c", "d"];
const heading = { environment: "shop", opened: 1 };

/** A model of a store: the keys of each log. */
class Model {
  readonly logs = new Map<string, string[]>();

  append(commits: Commit[]): Appended {
    const taken = commits.map(({ session }) => this.logs.get(session) ?? []);
    const keys = commits.map(({ entries }) => entries.map(({ key }) => key!));
    if (keys.some((own, at) => new Set([...own, ...taken[at]!]).size < own.length + taken[at]!.length))
      return "duplicate";
    if (commits.some(({ version }, at) => version !== taken[at]!.length)) return "conflict";
    for (const [at, { session }] of commits.entries()) this.logs.set(session, [...taken[at]!, ...keys[at]!]);
    return "ok";
  }
}

interface Step {
  sessions: string[];
  /** The offset of each commit from the version of its log: mostly 0. */
  off: number[];
  keys: number[][];
  deleted: string | undefined;
}

const mostlyNone = fc.oneof({ weight: 8, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constantFrom(-1, 1) });
const step: fc.Arbitrary<Step> = fc.record({
  sessions: fc.shuffledSubarray(names, { minLength: 1 }),
  off: fc.array(mostlyNone, { minLength: 4, maxLength: 4 }),
  keys: fc.array(fc.array(fc.nat(60), { minLength: 1, maxLength: 3 }), { minLength: 4, maxLength: 4 }),
  deleted: fc.option(fc.constantFrom(...names), { nil: undefined, freq: 10 }),
});

function commitsOf({ sessions, off, keys }: Step, model: Model): [Commit, ...Commit[]] {
  return sessions.map((session, at) => ({
    session,
    version: Math.max(0, (model.logs.get(session)?.length ?? 0) + off[at]!),
    entries: keys[at]!.map((key) => ({ body: `"k${key}"`, at: 1, key: `k${key}` })),
    heading,
  })) as unknown as [Commit, ...Commit[]];
}

async function expectSame(store: Store, model: Model): Promise<void> {
  for (const session of names) {
    const log = model.logs.get(session)?.map((key, at) => ({ version: at + 1, body: `"${key}"`, at: 1, key }));
    expect(await store.read(session, 0)).toEqual(log);
    expect((await store.load(session))?.entries).toEqual(log);
    for (const entry of log ?? []) expect(await store.find(session, entry.key)).toEqual(entry);
  }
  expect(await store.count("shop")).toBe(model.logs.size);
}

for (const kind of everyStore) {
  describe(kind.name, () => {
    test("ATOMIC: commits appended together behave as in a model, one after the other and all at once", async () => {
      const property = fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 30 }),
        fc.boolean(),
        async (steps, atOnce) => {
          const storage = await kind.open();
          try {
            const handles = [storage.store, await storage.second()];
            const model = new Model();
            const answers: Promise<unknown>[] = [];
            const expected: unknown[] = [];
            for (const [index, each] of steps.entries()) {
              // Concurrently only through one handle: it keeps the order, which the model needs.
              const store = handles[atOnce ? 0 : index % 2]!;
              const commits = commitsOf(each, model);
              expected.push(model.append(commits));
              answers.push(store.append(...commits));
              if (each.deleted !== undefined) {
                // A delete concurrent with appends has no promised order.
                await Promise.all(answers);
                expected.push(model.logs.delete(each.deleted));
                answers.push(Promise.resolve(await store.delete(each.deleted)));
              }
              if (!atOnce) await Promise.all(answers);
            }
            expect(await Promise.all(answers)).toEqual(expected);
            await expectSame(handles[1]!, model);
            await expectSame(await storage.reopen(), model);
          } finally {
            await storage.dispose();
          }
        },
      );
      await fc.assert(property, { numRuns: runs(kind.isRemote ? 10 : 40) });
    });

    test("ATOMIC: an invalid commit fails the commits appended together with it", async () => {
      const storage = await kind.open();
      const { store } = storage;
      const entries: Commit["entries"] = [{ body: "1", at: 1 }];
      const good = { session: "a", version: 0, entries, heading };
      const [answer, beside] = await Promise.allSettled([
        store.append(good, { session: "b", version: 0, entries }),
        store.append({ session: "c", version: 0, entries, heading }),
      ]);
      expect(answer).toMatchObject({ status: "rejected", reason: { code: "invalid_option" } });
      expect(beside).toMatchObject({ status: "fulfilled", value: "ok" });
      expect(await store.read("a", 0)).toBeUndefined();
      expect(await store.append(good)).toBe("ok");
      await storage.dispose();
    });
  });
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-together-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("ISOLATION: commits that SQLite cannot write together leave concurrent ones alone, and no trace", async () => {
  const store = sqliteStore({ file: join(newFolder(), "sessions.db") });
  const commitOf = (session: string, at = 1): Commit => ({
    session,
    version: 0,
    entries: [{ body: "1", at }],
    heading,
  });
  const answers = await Promise.allSettled([
    store.append(commitOf("a"), commitOf("b")),
    store.append(commitOf("c"), commitOf("d", Number.NaN)),
    store.append(commitOf("e"), commitOf("f")),
    store.append(commitOf("g"), commitOf("a")),
  ]);
  expect(answers.map((answer) => (answer.status === "fulfilled" ? answer.value : "failed"))).toEqual([
    "ok",
    "failed",
    "ok",
    "conflict",
  ]);
  const lengths = await Promise.all([..."abcdefg"].map(async (session) => (await store.read(session, 0))?.length));
  expect(lengths).toEqual([1, 1, undefined, undefined, 1, 1, undefined]);
  await store.close();
});

/** Four writers. Each extends two logs by the same text and opens two, repeatedly, and retries refused commits. */
const program = `
  const store = sqliteStore({ file });
  const heading = { environment: "shop", opened: 1 };
  const commitOf = (session, version, body) => ({ session, version, entries: [{ body, at: 1, key: body }], heading });
  async function writer(name) {
    const [left, right] = ["left " + name, "right " + name];
    let version = (await store.read(left, 0))?.length ?? 0;
    for (;;) {
      const body = JSON.stringify(name + " " + version);
      const opened = [commitOf(left + version, 0, body), commitOf(right + version, 0, body)];
      const refused = store.append(commitOf("torn " + name, 0, body), commitOf(left, version + 7, body));
      const answers = await Promise.all([
        store.append(commitOf(left, version, body), ...opened, commitOf(right, version, body)), refused,
      ]);
      if (answers.join() !== "ok,conflict") throw new Error("answered with " + answers);
      version++;
      process.stdout.write(name + " " + version + "\\n");
    }
  }
  for (let name = 0; name < 4; name++) void writer(name);`;

/** Runs it, kills it some milliseconds after its first answer, and returns the reported versions. */
async function runAndKill(script: string, afterMs: number): Promise<Map<string, number>> {
  const running = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let errors = "";
  running.stderr.on("data", (chunk) => (errors += String(chunk)));
  await new Promise<void>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    running.stdout.on("data", (chunk) => {
      text += String(chunk);
      timer ??= setTimeout(() => running.kill("SIGKILL"), afterMs);
    });
    running.on("close", (code) => (code === null ? resolve() : reject(new Error(`it ended by itself: ${errors}`))));
  });
  // The last line may be torn.
  const lines = text.slice(0, text.lastIndexOf("\n")).split("\n");
  return new Map(lines.map((line) => line.split(" ")).map(([name = "", version]) => [name, Number(version)]));
}

test("ATOMIC, DURABLE: a process killed while it appends to several logs leaves them in step", async () => {
  const source = await built();
  const folder = newFolder();
  const file = join(folder, "sessions.db");
  const script = join(folder, "writers.mjs");
  const sqlite = pathToFileURL(join(source, "stores/sqlite.js")).href;
  writeFileSync(
    script,
    `import { sqliteStore } from ${JSON.stringify(sqlite)};\nconst file = ${JSON.stringify(file)};\n${program}`,
  );
  for (let kill = 0; kill < runs(10); kill++) {
    const answered = await runAndKill(script, Math.random() * 60);
    const store = sqliteStore({ file });
    let sessions = 0;
    for (const name of ["0", "1", "2", "3"]) {
      const [left, right] = await Promise.all([store.read(`left ${name}`, 0), store.read(`right ${name}`, 0)]);
      const length = left?.length ?? 0;
      expect(right).toEqual(left);
      expect(length).toBeGreaterThanOrEqual(answered.get(name) ?? 0);
      expect(left?.map(({ body }) => body) ?? []).toEqual(
        Array.from({ length }, (_, version) => JSON.stringify(`${name} ${version}`)),
      );
      for (const side of ["left", "right"]) {
        expect(await store.read(`${side} ${name}${length}`, 0)).toBeUndefined();
        if (length > 0) expect(await store.read(`${side} ${name}${length - 1}`, 0)).toHaveLength(1);
      }
      sessions += length === 0 ? 0 : 2 + 2 * length;
    }
    expect(await store.count("shop")).toBe(sessions);
    await store.close();
  }
});

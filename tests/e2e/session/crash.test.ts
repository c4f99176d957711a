// Processes that share one SQLite file are killed at random moments: answered calls are there, once.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type * as Holdfast from "holdfast";
import type { Answer, Sessions, Store } from "holdfast";
import type * as Sqlite from "holdfast/stores/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { built } from "../../built.ts";
import { runs } from "../../runs.ts";
import { ledger } from "./crash-ledger.mjs";

interface Call {
  session: string;
  tool: string;
  call: string;
}

/** The calls that a process started, each with the version of its answer, if any. */
type Reports = Map<string, Call & { version: number | undefined }>;

const child = fileURLToPath(new URL("crash-child.mjs", import.meta.url));

/** Starts a process, kills it some milliseconds after its first answer, and returns its reports. */
async function runAndKill(options: object, afterMs: number): Promise<Reports> {
  const running = spawn(process.execPath, [child, JSON.stringify(options)], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let errors = "";
  running.stderr.on("data", (chunk) => (errors += String(chunk)));
  await new Promise<void>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    running.stdout.on("data", (chunk) => {
      text += String(chunk);
      if (text.includes("answered")) timer ??= setTimeout(() => running.kill("SIGKILL"), afterMs);
    });
    running.on("close", (code) => (code === null ? resolve() : reject(new Error(`it ended by itself: ${errors}`))));
  });
  const reports: Reports = new Map();
  // The last line may be torn.
  for (const line of text.slice(0, text.lastIndexOf("\n")).split("\n")) {
    const [what = "", session = "", tool = "", call = "", version] = line.split(" ");
    expect(["calling", "answered"]).toContain(what);
    reports.set(`${session} ${call}`, {
      session,
      tool,
      call,
      version: version === undefined ? undefined : Number(version),
    });
  }
  return reports;
}

async function engineOn(store: Store, source: string, effect: (call: string) => void): Promise<Sessions> {
  const { createSessions } = (await import(`${source}/index.js`)) as typeof Holdfast;
  return createSessions({ environment: await ledger(source, effect), store });
}

for (const { durability, kills, tags } of [
  { durability: "process", kills: 6, tags: [] },
  { durability: "process", kills: 50, tags: ["full"] },
  { durability: "power", kills: 10, tags: ["full"] },
]) {
  const slowTest = { tags, timeout: 300_000 * runs(1) };
  test(
    `DURABLE, ONCE, SERIAL: calls answered before ${kills} kills are there once (${durability})`,
    slowTest,
    async () => {
      const source = await built();
      const folder = mkdtempSync(join(tmpdir(), "holdfast-crash-"));
      const file = join(folder, "ledger.db");
      const effects = join(folder, "effects.txt");
      const { sqliteStore } = (await import(`${source}/stores/sqlite.js`)) as typeof Sqlite;
      const open = (): Store => sqliteStore({ file, durability: durability as "process" });
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));

      let store = open();
      let engine = await engineOn(store, source, () => undefined);
      const sessions = await Promise.all([1, 2, 3, 4].map(async () => (await engine.open()).session));
      await engine.stop();
      await store.close();

      const every: Reports = new Map();
      const inDoubt: Call[] = [];
      const rounds = Math.ceil(runs(kills) / 2);
      for (let round = 0; round < rounds; round++) {
        // Two at a time, on the same sessions: each meets the other's commits, and the other's death.
        const options = { built: source, file, effects, durability, sessions };
        const both = await Promise.all(
          [0, 1].map((n) => runAndKill({ ...options, name: `${round}${"ab"[n]}` }, Math.random() * 60)),
        );

        store = open();
        const again: string[] = [];
        engine = await engineOn(store, source, (call) => again.push(call));
        for (const [key, report] of both.flatMap((reports) => [...reports])) {
          every.set(key, report);
          const { session, tool, call, version } = report;
          if (version === undefined && tool === "send") {
            // It cannot be decided before its lease ends; see the end.
            inDoubt.push(report);
            continue;
          }
          // A client's repeat: an answered call returns its answer, any other call is made now.
          const answer: Answer = await engine.call(session, tool, { n: 1 }, { call });
          expect(answer.ok).toBe(true);
          if (version !== undefined) expect(answer).toMatchObject({ repeated: true, version });
        }
        expect(again).toEqual([]);
        await engine.stop();
        await store.close();
      }

      await sleep(1200);
      store = open();
      engine = await engineOn(store, source, () => undefined);
      let unknown = 0;
      for (const { session, tool, call } of inDoubt) {
        const answer = await engine.call(session, tool, { n: 1 }, { call });
        if (!answer.ok) {
          expect(answer.error.code).toBe("outcome_unknown");
          unknown++;
        }
      }

      let applied = 0;
      for (const session of sessions) {
        const { total, marks } = (await engine.state(session)) as { total: number; marks: Record<string, number> };
        expect(new Set(Object.values(marks))).toEqual(new Set([1]));
        expect(total).toBe(Object.keys(marks).length);
        applied += total;
        for (const call of Object.keys(marks)) expect(every.has(`${session} ${call}`)).toBe(true);
        expect(await engine.replay(session)).toMatchObject({ same: true });
      }
      expect(applied).toBe(every.size - unknown);
      const sent = existsSync(effects) ? readFileSync(effects, "utf8").trim().split("\n") : [];
      expect(sent.length).toBe(new Set(sent).size);
      await engine.stop();
      await store.close();
    },
  );
}

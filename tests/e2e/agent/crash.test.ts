// A process with an agent is killed before and after each of its commits: another one resumes, and repeats nothing.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Conversations, AgentState, NumberedEvent, Sessions, Store } from "holdfast";
import type * as Sqlite from "holdfast/stores/sqlite";
import { expect, onTestFinished, test } from "vitest";
import { built } from "../../built.ts";
import { runs } from "../../runs.ts";
import { crashAgent } from "./crash-agent.mjs";

const child = fileURLToPath(new URL("crash-child.mjs", import.meta.url));
const message = "go";
/** Milliseconds after which a killed process is succeeded. */
const lease = 400;

interface Killing {
  commit?: number;
  when?: "before" | "after";
}

/** Returns the lines that a process reported. */
async function runChild(options: object): Promise<{ lines: string[]; isKilled: boolean }> {
  const given = JSON.stringify({ message, lease, ...options });
  const running = spawn(process.execPath, [child, given], { stdio: ["ignore", "pipe", "pipe"] });
  let [text, errors] = ["", ""];
  running.stdout.on("data", (chunk) => (text += String(chunk)));
  running.stderr.on("data", (chunk) => (errors += String(chunk)));
  const code = await new Promise((resolve) => running.on("close", resolve));
  if (code !== null && code !== 0) throw new Error(`it failed: ${errors}`);
  return { lines: text.split("\n").slice(0, -1), isKilled: code === null };
}

interface Opened {
  store: Store;
  sessions: Conversations;
  episodes: Sessions;
  /** Resumes after a killed process. Returns the actions of the resumed run. */
  resume(session: string): Promise<string[]>;
  log(session: string): Promise<NumberedEvent[]>;
  replay(session: string): Promise<unknown>;
  close(): Promise<void>;
}

async function open(source: string, file: string): Promise<Opened> {
  const { sqliteStore } = (await import(`${source}/stores/sqlite.js`)) as typeof Sqlite;
  const store = sqliteStore({ file });
  const lines: string[] = [];
  const { agent, episodes, holdfast } = await crashAgent(source, store, (...words) => void lines.push(words.join(" ")));
  const sessions = holdfast.createSessions({ app: "crash", store });
  const log = async (session: string): Promise<NumberedEvent[]> => {
    const events: NumberedEvent[] = [];
    for await (const event of sessions.events(session)) events.push(event);
    return events;
  };
  return {
    store,
    sessions,
    episodes,
    log,
    async resume(session) {
      const events = await log(session);
      lines.length = 0;
      const start = performance.now();
      // The same turn is sent again, whether or not it was begun or is over.
      for await (const _ of holdfast.run(agent, { sessions, session, message, call: "m1" })) continue;
      // A process that died is succeeded after its lease, and not before.
      const isHeld = events.length > 1 && !isOver(events);
      if (isHeld) expect(performance.now() - start).toBeGreaterThan(lease - 5);
      const taken = (await log(session)).filter(({ type }) => type === "turn.taken");
      expect(taken).toHaveLength(isHeld ? 1 : 0);
      return [...lines];
    },
    async replay(session) {
      lines.length = 0;
      const result = await sessions.replay(session, { agent });
      // No model is asked, and nothing is sent.
      expect(lines.filter((line) => /^asked|^ran send/.test(line))).toEqual([]);
      return result;
    },
    async close() {
      await store.close();
    },
  };
}

/** The committed actions that must not be repeated: answers by agent and turn, and calls with results. */
function committed(events: NumberedEvent[]): Set<string> {
  const done = new Set<string>();
  const turns: Record<string, number> = {};
  for (const event of events) {
    if (event.type === "model.answered") {
      const turn = turns[event.agent] ?? 0;
      turns[event.agent] = turn + 1;
      done.add(`asked ${event.agent} ${turn}`);
    }
    if (event.type !== "tools.answered") continue;
    for (const { call_id } of event.items as unknown as { call_id: string }[]) {
      const id = event.agent === "child" ? "of-child" : call_id;
      for (const name of ["note", "gather", "send"]) done.add(`ran ${name} ${id}`);
    }
  }
  return done;
}

const isOver = (events: NumberedEvent[]): boolean =>
  events.some((event) => event.type === "agent.ended" && event.last === true);

const unknownIn = (events: NumberedEvent[]): string[] =>
  events.flatMap((event) =>
    event.type === "tools.answered"
      ? (event.failed ?? []).map(({ code, call }) => {
          expect(code).toBe("outcome_unknown");
          return call;
        })
      : [],
  );

/** Removes the episode id, which differs in every session. */
function comparable(state: AgentState): AgentState {
  const { "environment:pile": _, "environment:pile:at": __, ...rest } = state;
  return rest;
}

async function inFolder(run: (source: string, file: (name: string) => string) => Promise<void>): Promise<void> {
  const source = await built();
  const folder = mkdtempSync(join(tmpdir(), "holdfast-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await run(source, (name) => join(folder, `${name}.db`));
}

async function newSession(source: string, file: string): Promise<string> {
  const { sessions, close } = await open(source, file);
  const { session } = await sessions.open({ user: "ann", state: { marks: {} } });
  await close();
  return session;
}

/** The types of all events, without the events that say who holds the turn. */
const typesOf = (events: NumberedEvent[]): string[] =>
  events.map(({ type }) => type).filter((type) => !type.startsWith("turn."));

/** The run without kills. */
async function uncut(source: string, file: string) {
  const session = await newSession(source, file);
  const { lines, isKilled } = await runChild({ built: source, file, session });
  expect(isKilled).toBe(false);
  const { sessions, episodes, log, close } = await open(source, file);
  const state = await sessions.state(session);
  const episode = await episodes.state(state["environment:pile"] as string);
  const types = typesOf(await log(session));
  await close();
  const commits = Number(lines.at(-1)?.split(" ")[1]);
  return { state: comparable(state), episode, types, commits };
}

/** Checks a session at its end, however often its run was killed. */
async function check(
  { sessions, episodes, log, replay }: Opened,
  session: string,
  whole: Awaited<ReturnType<typeof uncut>>,
  done: string[],
): Promise<string[]> {
  const events = await log(session);
  const unknown = unknownIn(events);
  const { marks, ...rest } = whole.state as { marks: Record<string, number> };
  const left = Object.entries(marks).filter(([call]) => !unknown.includes(call));
  const state = await sessions.state(session);
  expect(comparable(state)).toEqual({ ...rest, marks: Object.fromEntries(left) });
  expect(await episodes.state(state["environment:pile"] as string)).toEqual(whole.episode);
  expect(typesOf(events)).toEqual(whole.types);
  const sent = done.filter((line) => line.startsWith("ran send"));
  expect(new Set(sent).size).toBe(sent.length);
  expect(await replay(session)).toEqual({ same: true, events: events.length });
  return unknown;
}

const timeout = 300_000 * runs(1);

/** The full lane kills at every commit. */
async function killAtEvery(step: number): Promise<void> {
  await inFolder(async (source, file) => {
    const whole = await uncut(source, file("whole"));
    expect(whole.commits).toBeGreaterThan(15);
    let [unknown, inDoubt] = [0, 0];
    const kill = async ({ commit, when }: Required<Killing>): Promise<void> => {
      const at = file(`${commit}-${when}`);
      const session = await newSession(source, at);
      const killed = await runChild({ built: source, file: at, session, commit, when });
      expect(killed.isKilled).toBe(true);
      const opened = await open(source, at);
      const events = await opened.log(session);
      // Yielded events are in the log.
      const yielded = killed.lines.findLast((line) => line.startsWith("event"))?.split(" ");
      if (yielded) expect(events[Number(yielded[2]) - 1]?.type).toBe(yielded[1]);
      const before = committed(events);
      const again = await opened.resume(session);
      expect(again.filter((line) => before.has(line))).toEqual([]);
      inDoubt += events
        .flatMap((event) => (event.type === "tools.started" ? event.calls : []))
        .filter((call) => !before.has(`ran send ${call}`)).length;
      const found = await check(opened, session, whole, [...killed.lines, ...again]);
      unknown += found.length;
      await opened.close();
    };
    for (let commit = 1; commit <= whole.commits; commit += step) {
      await Promise.all([kill({ commit, when: "before" }), kill({ commit, when: "after" })]);
    }
    // Only started calls without a result are unknown.
    if (step === 1) expect(unknown).toBeGreaterThan(0);
    expect(unknown).toBe(inDoubt);
  });
}

test("DURABLE, ONCE: a run that is killed before or after a commit resumes, and does nothing twice", { timeout }, () =>
  killAtEvery(5),
);

test(
  "DURABLE, ONCE: a run that is killed before or after any commit resumes, and does nothing twice",
  { tags: ["full"], timeout },
  () => killAtEvery(1),
);

test("DURABLE, ONCE: a run that is killed repeatedly reaches its end", { tags: ["full"], timeout }, () =>
  inFolder(async (source, file) => {
    const whole = await uncut(source, file("whole"));
    for (const every of [3, 2, 1, 5].slice(0, runs(2))) {
      const at = file(`every-${every}`);
      const session = await newSession(source, at);
      const done: string[] = [];
      let isKilled = true;
      for (let round = 0; isKilled; round++) {
        expect(round).toBeLessThan(100);
        const opened = await open(source, at);
        const events = await opened.log(session);
        await opened.close();
        const before = committed(events);
        if (isOver(events)) break;
        const when = every > 1 && round % 2 === 0 ? "before" : "after";
        // To take the turn over is a commit, and no progress.
        const commit = events.length === 1 ? every : every + 1;
        const killed = await runChild({ built: source, file: at, session, commit, when });
        expect(killed.lines.filter((line) => before.has(line))).toEqual([]);
        done.push(...killed.lines);
        isKilled = killed.isKilled;
      }
      const opened = await open(source, at);
      await check(opened, session, whole, done);
      await opened.close();
    }
  }),
);

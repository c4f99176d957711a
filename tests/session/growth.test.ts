// The store work of a commit: it must not grow with the history, the state, or the other sessions.
import {
  createSessions,
  defineAgent,
  defineEnvironment,
  memoryStore,
  run,
  scriptedModel,
  tool,
  type Store,
} from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";

/** Counts the verbs and their bytes. */
function counted(): { store: Store; work: { verbs: number; bytes: number } } {
  const inner = memoryStore();
  const work = { verbs: 0, bytes: 0 };
  const count =
    <A extends unknown[], R>(verb: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      work.verbs++;
      const result = await verb(...args);
      work.bytes += JSON.stringify(args).length + (JSON.stringify(result) ?? "").length;
      return result;
    };
  const { append, read, load, find } = inner;
  return {
    work,
    store: { ...inner, append: count(append), read: count(read), load: count(load), find: count(find) },
  };
}

const environment = defineEnvironment({
  name: "growing",
  state: z.object({ n: z.number(), rows: z.record(z.string(), z.object({ text: z.string() })) }),
  task: z.object({ rows: z.number() }),
  seed: ({ task }) => ({
    n: 0,
    rows: Object.fromEntries(Array.from({ length: task.rows }, (_, n) => [`row ${n}`, { text: "x".repeat(80) }])),
  }),
  tools: { bump: tool({ description: "Adds one.", run: ({ state }) => ++state.n }) },
});

/** Work per call over many calls on one session. */
async function workPerCall(options: { rows: number; history: number; sessions: number; calls: number }) {
  const { store, work } = counted();
  const sessions = createSessions({ environment, store });
  for (let n = 0; n < options.sessions; n++) await sessions.open({ task: { rows: 1 } });
  const { session } = await sessions.open({ task: { rows: options.rows } });
  for (let n = 0; n < options.history; n++) await sessions.call(session, "bump");
  work.verbs = work.bytes = 0;
  for (let n = 0; n < options.calls; n++) await sessions.call(session, "bump");
  return { verbs: work.verbs / options.calls, bytes: work.bytes / options.calls };
}

test("GROWTH: a call is one round trip to the store, for any history, state and number of sessions", async () => {
  const small = { rows: 10, history: 10, sessions: 1, calls: 400 };
  const reference = await workPerCall(small);
  expect(reference.verbs).toBe(1);
  for (const larger of [{ history: 20_000 }, { sessions: 5000 }]) {
    const { verbs, bytes } = await workPerCall({ ...small, ...larger });
    expect(verbs).toBe(1);
    expect(bytes).toBeLessThan(reference.bytes * 1.1);
  }
});

test("GROWTH: snapshots of a large state are so rare that a call's share of them is that of its own event", async () => {
  const small = await workPerCall({ rows: 10, history: 0, sessions: 1, calls: 20_000 });
  const large = await workPerCall({ rows: 10_000, history: 0, sessions: 1, calls: 20_000 });
  expect(large.bytes).toBeLessThan(small.bytes * 2);
});

test("GROWTH: loading a session folds no more than a bounded tail, however long its log", async () => {
  const { store, work } = counted();
  const sessions = createSessions({ environment, store });
  const { session } = await sessions.open({ task: { rows: 10 } });
  const loads: number[] = [];
  for (let n = 0; n < 5000; n++) {
    await sessions.call(session, "bump");
    if (n % 250 !== 0) continue;
    work.bytes = 0;
    await createSessions({ environment, store }).state(session);
    loads.push(work.bytes);
  }
  expect(Math.max(...loads)).toBeLessThan(40_000);
});

/** Work per turn over many turns of one conversation. */
async function workPerTurn(options: { keys: number; history: number; sessions: number; turns: number }) {
  const { store, work } = counted();
  const agent = defineAgent({
    name: "host",
    model: scriptedModel(() => "Yes."),
    callbacks: { beforeAgent: ({ state }) => void (state["turns"] = Number(state["turns"] ?? 0) + 1) },
  });
  const sessions = createSessions({ app: "growing", store });
  for (let n = 0; n < options.sessions; n++) await sessions.open();
  const state = Object.fromEntries(Array.from({ length: options.keys }, (_, n) => [`key ${n}`, "x".repeat(80)]));
  const { session } = await sessions.open({ state });
  const turn = async (): Promise<void> => {
    for await (const _ of run(agent, { sessions, session, message: "hello" })) continue;
  };
  for (let n = 0; n < options.history; n++) await turn();
  work.verbs = work.bytes = 0;
  for (let n = 0; n < options.turns; n++) await turn();
  return { verbs: work.verbs / options.turns, bytes: work.bytes / options.turns };
}

test("GROWTH: a turn has the same store work for any history, state and number of conversations", async () => {
  const small = { keys: 10, history: 10, sessions: 1, turns: 200 };
  const reference = await workPerTurn(small);
  for (const larger of [{ history: 1000 }, { sessions: 2000 }]) {
    const { verbs, bytes } = await workPerTurn({ ...small, ...larger });
    expect(verbs).toBe(reference.verbs);
    expect(bytes).toBeLessThan(reference.bytes * 1.1);
  }
  const rich = await workPerTurn({ ...small, keys: 1000, turns: 2000 });
  expect(rich.bytes).toBeLessThan(reference.bytes * 2);
});

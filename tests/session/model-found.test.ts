// Faults of the engine that adversarial testing found, each as its smallest program.
import { createSessions, defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { z } from "zod";
import { clock } from "./clock.ts";
import { counter } from "./counter.ts";
import { ledger } from "./model-environment.ts";

const task = { start: 0, goal: 5 };

test("SERIAL: a session whose log is long enough for a snapshot is the same after a reload", async () => {
  const store = memoryStore();
  const one = createSessions({ environment: counter, store });
  const { session } = await one.open({ task });
  const count = 30;
  const notes = Array.from({ length: count }, (_, n) => `${n} ${"x".repeat(2000)}`);
  for (const text of notes) await one.call(session, "note", { text });
  const two = createSessions({ environment: counter, store });
  expect((await two.state(session)).notes).toEqual(notes);
  for (let n = 0; n <= count; n++) expect((await two.state(session, n + 2)).notes).toHaveLength(n);
});

test("ONCE: a call id of the last episode is new in the next, also for an engine that has not seen the seed", async () => {
  const store = memoryStore();
  const [one, two] = [createSessions({ environment: counter, store }), createSessions({ environment: counter, store })];
  const { session } = await one.open({ task });
  await one.call(session, "add", { by: 1 }, { call: "1" });
  await two.seed(session, { start: 100, goal: 0 });
  expect(await one.call(session, "add", { by: 1 }, { call: "1" })).toMatchObject({
    repeated: false,
    output: { count: 101 },
  });
});

test("SERIAL: a session that another engine has seeded is not refused as unseeded", async () => {
  const store = memoryStore();
  const environment = defineEnvironment({
    name: "strict",
    state: z.object({ count: z.number() }),
    unseeded: "reject",
    seed: () => ({ count: 0 }),
    tools: { read: tool({ description: "Read.", run: ({ state }) => state.count }) },
    verify: () => 0,
  });
  const [one, two] = [createSessions({ environment, store }), createSessions({ environment, store })];
  const { session } = await one.open();
  await two.seed(session, {});
  expect(await one.call(session, "read")).toMatchObject({ ok: true });
});

test("SERIAL: a session that another engine has used recently is not refused as idle", async () => {
  const store = memoryStore();
  const limits = { idle: 200_000 };
  const time = clock();
  const [one, two] = [
    createSessions({ environment: counter, store, limits }),
    createSessions({ environment: counter, store, limits }),
  ];
  const { session } = await one.open({ task });
  time.pass(150_000);
  await two.call(session, "add", { by: 1 });
  time.pass(100_000);
  expect(await one.call(session, "add", { by: 1 })).toMatchObject({ ok: true });
  await one.stop();
  await two.stop();
});

test("an event is never dated before its predecessor, also if a slow seed is overtaken", async () => {
  const store = memoryStore();
  const environment = defineEnvironment({
    name: "slow",
    state: z.object({ count: z.number().default(0) }),
    seed: async () => {
      await sleep(30);
      return { count: 0 };
    },
    tools: { read: tool({ description: "Read.", run: ({ state }) => state.count }) },
    verify: () => 0,
  });
  const [one, two] = [createSessions({ environment, store }), createSessions({ environment, store })];
  const { session } = await one.open();
  const seeding = one.seed(session, {});
  await sleep(15);
  await two.call(session, "read");
  await seeding;
  const times: number[] = [];
  for await (const { at } of one.events(session)) times.push(at);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});

test("ISOLATION: changing a returned info changes nothing in the session", async () => {
  const sessions = createSessions({ environment: counter, store: memoryStore() });
  const { session } = await sessions.open({ task });
  const child = await sessions.fork(session);
  const info = await sessions.info(child.session);
  (info.parent as { version: number }).version = 99;
  expect((await sessions.info(child.session)).parent).toEqual({ session, version: 2 });
});

/** Calls `before` at each verb of the store. */
function watched(store: Store, before: (verb: keyof Store, first: unknown) => Promise<void>): Store {
  const wrap =
    <A extends unknown[], R>(verb: keyof Store, run: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      await before(verb, args[0]);
      return run(...args);
    };
  return {
    ...store,
    append: wrap("append", store.append),
    read: wrap("read", store.read),
    load: wrap("load", store.load),
  };
}

test("REPLAY: a replay of a live session is not confused by concurrent calls that commit in the meantime", async () => {
  const inner = memoryStore();
  const live = createSessions({ environment: counter, store: inner });
  const { session } = await live.open({ task });
  let reads = 0;
  const store = watched(inner, async (verb) => {
    // After the first pass over the log.
    if (verb === "read" && ++reads === 3) await live.call(session, "gather", { by: 1 });
  });
  expect(await createSessions({ environment: counter, store }).replay(session)).toMatchObject({ same: true });
});

test("PURE-VERIFY: a session that is closed during its verification gets its verdict, and stays closed", async () => {
  const store = memoryStore();
  const other: { close?: () => Promise<boolean> } = {};
  const environment = defineEnvironment({
    name: "judged",
    state: z.object({ count: z.number().default(0) }),
    tools: {},
    verify: async () => {
      await other.close?.();
      return 1;
    },
  });
  const [one, two] = [
    createSessions({ environment, store, keepEnded: true }),
    createSessions({ environment, store, keepEnded: true }),
  ];
  const { session } = await one.open({ task: {} });
  other.close = () => two.close(session);
  expect(await one.verify(session)).toMatchObject({ reward: 1, version: 2 });
  expect(await one.info(session)).toMatchObject({ ended: "closed" });
  const types: string[] = [];
  for await (const { type } of two.events(session)) types.push(type);
  expect(types.slice(2)).toEqual(["session.closed", "session.verified"]);
});

test("an external call that was interrupted by the end of its session has an unknown outcome, also when it is repeated", async () => {
  const environment = defineEnvironment({
    name: "outside",
    state: z.object({ count: z.number().default(0) }),
    tools: {
      send: tool({ description: "Send.", effects: "external", run: () => sleep(50, "sent") }),
    },
    verify: () => 0,
  });
  const sessions = createSessions({ environment, store: memoryStore(), keepEnded: true });
  const { session } = await sessions.open({ task: {} });
  const sending = sessions.call(session, "send", {}, { call: "1" }).then(
    (answer) => (answer.ok ? "ok" : answer.error.code),
    (error: { code: string }) => error.code,
  );
  await sleep(10);
  await sessions.close(session);
  expect(await sending).toBe("outcome_unknown");
  const unknown = { ok: false, error: { code: "outcome_unknown" }, version: 3, repeated: true };
  expect(await sessions.call(session, "send", {}, { call: "1" })).toMatchObject(unknown);
});

test("PURE-VERIFY: asking twice gives the same reward, also of a session that has ended", async () => {
  let asked = 0;
  const environment = defineEnvironment({
    name: "moody",
    state: z.object({ count: z.number().default(0) }),
    tools: {},
    verify: () => ++asked,
  });
  const sessions = createSessions({ environment, store: memoryStore(), keepEnded: true });
  const { session } = await sessions.open({ task: {} });
  await sessions.close(session);
  expect((await sessions.verify(session)).reward).toBe((await sessions.verify(session)).reward);
});

test("MISSING, FORK: a session opened with a task had the defaults before, and can be rewound to them", async () => {
  const sessions = createSessions({ environment: counter, store: memoryStore() });
  const { session } = await sessions.open({ task });
  expect(await sessions.state(session, 1)).toEqual({ count: 0, notes: [] });
  const child = await sessions.fork(session, { version: 1 });
  expect(await sessions.call(child.session, "add", { by: 1 })).toMatchObject({ ok: true, unseeded: true });
});

test("CLEANUP: a call that arrives while an idle session proves to be in use is not refused", async () => {
  const inner = memoryStore();
  const limits = { idle: 100_000 };
  const time = clock();
  const two = createSessions({ environment: counter, store: inner, limits });
  const { session } = await two.open({ task });
  let hook: (() => Promise<void>) | undefined;
  let loads = 0;
  const store = watched(inner, async (verb) => {
    const now = hook;
    // The second load is the refresh before the end.
    if (verb !== "load" || !now || ++loads < 2) return;
    hook = undefined;
    await now();
  });
  const one = createSessions({ environment: counter, store, limits });
  let calling: Promise<unknown> | undefined;
  time.pass(120_000);
  // Used through the other engine just before it would have ended.
  hook = async () => {
    await inner.append({
      session,
      version: 2,
      entries: [
        {
          at: Date.now(),
          body: JSON.stringify({
            type: "tool.called",
            at: Date.now(),
            episode: 1,
            tool: "x",
            input: {},
            outcome: { ok: true, output: 0 },
          }),
        },
      ],
    });
    calling = one.call(session, "add", { by: 1 });
    calling.catch(() => undefined);
  };
  expect(await one.expire()).toBe(0);
  expect(await calling).toMatchObject({ ok: true });
  await one.stop();
  await two.stop();
});

test("ONCE: after the end of a later episode, an engine that missed it returns no answer of an earlier one", async () => {
  const store = memoryStore();
  const [one, two] = [
    createSessions({ environment: counter, store, keepEnded: true }),
    createSessions({ environment: counter, store, keepEnded: true }),
  ];
  const { session } = await one.open({ task });
  await one.call(session, "add", { by: 1 }, { call: "1" });
  await two.seed(session, task);
  await two.close(session);
  await expect(one.call(session, "add", { by: 1 }, { call: "1" })).rejects.toMatchObject({ code: "session_closed" });
});

test("ONCE: a call that a close stops, on an engine that missed a seed, does not conflict with an earlier episode's", async () => {
  const store = memoryStore();
  const engineOf = () => createSessions({ environment: ledger, store, keepEnded: true });
  const [one, two] = [engineOf(), engineOf()];
  const { session } = await one.open({ task: { start: 0 } });
  await one.call(session, "add", { by: 1 }, { call: "1" });
  await two.seed(session, { start: 0 });
  const calling = one.call(session, "note", { by: 1 }, { call: "1" });
  const [called, closed] = await Promise.allSettled([calling, one.close(session)]);
  expect(called).toMatchObject({ status: "rejected", reason: { code: "session_closed" } });
  expect(closed).toMatchObject({ value: true });
});

test("MISSING: a concurrent call that is overtaken by a rewind is refused like any call before the seed", async () => {
  const inner = memoryStore();
  const environment = defineEnvironment({
    name: "strict",
    state: z.object({ count: z.number().default(0) }),
    unseeded: "reject",
    tools: { look: tool({ description: "Look.", concurrent: true, run: ({ state }) => state.count }) },
  });
  let hook: (() => Promise<unknown>) | undefined;
  const find: Store["find"] = async (...args) => {
    const now = hook;
    hook = undefined;
    await now?.();
    return inner.find(...args);
  };
  const sessions = createSessions({ environment, store: { ...inner, find } });
  const { session } = await sessions.open({ task: {} });
  hook = () => sessions.rewind(session, 1);
  await expect(sessions.call(session, "look", {}, { call: "1" })).rejects.toMatchObject({ code: "session_unseeded" });
});

test("ONCE: a concurrent tool's handler runs once for each call while the episode's queue is full", async () => {
  let ran = 0;
  const run = async (): Promise<void> => {
    ran++;
    await Promise.resolve();
  };
  const look = tool({ description: "Look.", concurrent: true, run });
  const episodes = createSessions({
    environment: defineEnvironment({ name: "crowded", tools: { look } }),
    store: memoryStore(),
  });
  const { session } = await episodes.open();
  const calls = await Promise.allSettled(Array.from({ length: 900 }, () => episodes.call(session, "look", {})));
  const refused = calls.filter(({ status }) => status === "rejected");
  expect(refused.length).toBeGreaterThan(0);
  expect(ran).toBe(900 - refused.length);
});

// Verbs of every session, tried on conversations: they end, fork, rewind, save and list as episodes do.
import {
  createSessions,
  defineAgent,
  memoryStore,
  scriptedModel,
  tool,
  type Agent,
  type AgentState,
  type Conversations,
} from "holdfast";
import { expect, test } from "vitest";
import { codeOf, finish, gate, logOf, onEveryStore, typesOf } from "../agent/engine.ts";
import { clock } from "./clock.ts";
import { heapInUse } from "./heap.ts";

const calls = (name: string) => ({ calls: [{ name }] });

/** Counts its turns in a tool, and answers. */
function counting(turns = 20): Agent {
  return defineAgent({
    name: "host",
    model: scriptedModel(Array.from({ length: turns }, () => [calls("count"), "Counted."]).flat()),
    tools: {
      count: tool({
        description: "Counts.",
        run: ({ state }) => {
          state["n"] = Number(state["n"] ?? 0) + 1;
          state["user:total"] = Number(state["user:total"] ?? 0) + 1;
          return state["n"] as number;
        },
      }),
    },
  });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const say = (sessions: Conversations, session: string, agent: Agent = counting()) =>
  finish(agent, { sessions, session, message: "count" });

onEveryStore(
  "CLEANUP: a closed conversation takes no turns; closing twice, or one that never was, is fine",
  async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open();
    await say(sessions, session);
    expect(await sessions.close(session)).toBe(true);
    expect(await sessions.close(session)).toBe(false);
    expect(await sessions.close("never-was")).toBe(false);
    const gone = place.kind.persistent ? "session_closed" : "session_not_found";
    expect(await codeOf(say(sessions, session))).toBe(gone);
    if (place.kind.persistent) expect(typesOf(await logOf(sessions, session)).at(-1)).toBe("session.closed");
    else expect(await codeOf(logOf(sessions, session))).toBe("session_not_found");
  },
);

onEveryStore("CLEANUP: conversations end by idle time, age and capacity", async (place) => {
  const now = clock();
  const idle = place.engine("idle", { limits: { idle: 1000 }, keepEnded: true });
  const old = place.engine("old", { limits: { age: 1000 }, keepEnded: true });
  const full = place.engine("full", { limits: { sessions: 2 }, keepEnded: true });
  const a = (await idle.open()).session;
  const b = (await old.open()).session;
  now.pass(600);
  await say(idle, a);
  await say(old, b);
  now.pass(600);
  // Begun before the engine's own timer can end the session.
  const aged = old.expire();
  expect(await idle.expire()).toBe(0);
  expect(await aged).toBe(1);
  expect((await old.info(b)).ended).toBe("age");
  now.pass(600);
  expect(await codeOf(say(idle, a))).toBe("session_closed");
  expect((await idle.info(a)).ended).toBe("idle");
  const opened: string[] = [];
  for (let n = 0; n < 4; n++) {
    // The longest idle makes room; stores order sessions of one moment as they like.
    now.pass(1);
    opened.push((await full.open()).session);
  }
  const open = (await all(full.list({ open: true }))).map(({ session }) => session);
  expect(open).toEqual(opened.slice(2));
});

test("CLEANUP: closed conversations give back the memory they held, on a store in memory too", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const agent = defineAgent({ name: "host", model: scriptedModel(() => "Yes.") });
  const before = heapInUse();
  // 60 MB, if all of it stayed.
  for (let n = 0; n < 1000; n++) {
    const { session } = await sessions.open();
    await finish(agent, { sessions, session, message: `${n} ${"x".repeat(60_000)}` });
    await sessions.close(session);
  }
  expect(heapInUse() - before).toBeLessThan(10e6);
});

test("CLEANUP: a close does not wait for a turn that runs: it is told, and the log ends", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore(), keepEnded: true });
  const asked = gate();
  const model = scriptedModel(async () => {
    asked.open();
    return new Promise<string>(() => undefined);
  });
  const { session } = await sessions.open();
  const running = codeOf(finish(defineAgent({ name: "host", model }), { sessions, session, message: "hi" }));
  await asked.opened;
  expect(await sessions.close(session)).toBe(true);
  expect(await running).toBe("session_closed");
  expect(typesOf(await logOf(sessions, session))).toEqual(["session.opened", "invocation.began", "session.closed"]);
});

test("a stop cancels the turns that still run when its time is over", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const asked = gate();
  const model = scriptedModel(async () => {
    asked.open();
    return new Promise<string>(() => undefined);
  });
  const running = codeOf(finish(defineAgent({ name: "host", model }), { sessions, message: "hi" }));
  await asked.opened;
  await sessions.stop({ within: 20 });
  expect(await running).toBe("engine_stopped");
});

onEveryStore(
  "FORK: a conversation can be forked at any version, in the middle of a turn too, and neither affects the other",
  async (place) => {
    const sessions = place.engine();
    const { session } = await sessions.open({ user: "ann", state: { from: "parent" } });
    await say(sessions, session);
    await say(sessions, session);
    const events = await logOf(sessions, session);
    for (const { version } of events) {
      const {
        session: child,
        user,
        parent,
        ...info
      } = await sessions.fork(session, { version, set: { own: version } });
      expect({ user, parent, version: info.version }).toEqual({
        user: "ann",
        parent: { session, version },
        version: version + 1,
      });
      const state = await sessions.state(child);
      expect({ ...state, own: undefined }).toEqual({ ...(await sessions.state(session, version)), own: undefined });
      expect(state["own"]).toBe(version);
      // Its events are those of the parent without leases, and a turn that was open there can be continued.
      const free = events.map((event) => ({ ...event, lease: undefined }));
      expect((await logOf(sessions, child)).slice(1, -1)).toEqual(free.slice(1, version));
      if (info.turn) expect((await finish(counting(), { sessions, session: child })).outcome).toBe("answered");
      expect(await say(sessions, child)).toMatchObject({ outcome: "answered" });
    }
    expect(await logOf(sessions, session)).toEqual(events);
    expect((await sessions.state(session))["own"]).toBeUndefined();
  },
);

onEveryStore("FORK: a fork is as old as the fork, and may be given its id once", async (place) => {
  const now = clock();
  const sessions = place.engine("app", { limits: { age: 1000, idle: 1000 } });
  const { session } = await sessions.open();
  await say(sessions, session);
  now.pass(900);
  const id = sessions.newSession();
  const fork = await sessions.fork(session, { session: id });
  expect(fork).toMatchObject({ session: id, opened: Date.now(), touched: Date.now() });
  expect(await codeOf(sessions.fork(session, { session: id }))).toBe("session_exists");
  now.pass(900);
  expect(await sessions.expire()).toBe(1);
  expect(await say(sessions, id)).toMatchObject({ outcome: "answered" });
});

test("FORK: the fork of a closed conversation is open, also of one that was restored", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore(), keepEnded: true });
  const { session } = await sessions.open();
  await say(sessions, session);
  await sessions.close(session);
  const restored = await sessions.restore(await sessions.save(session));
  for (const closed of [session, restored.session]) {
    const fork = await sessions.fork(closed);
    expect(await say(sessions, fork.session)).toMatchObject({ outcome: "answered" });
    expect(await sessions.state(fork.session)).toMatchObject({ n: 2 });
  }
});

onEveryStore("a conversation is rewound to a version, and a turn that was open there is continued", async (place) => {
  const sessions = place.engine();
  const { session } = await sessions.open();
  await say(sessions, session);
  await say(sessions, session);
  const answered = (await logOf(sessions, session)).filter(({ type }) => type === "model.answered");
  const [first] = answered as unknown as [{ version: number }];
  const info = await sessions.rewind(session, first.version);
  expect(info.turn).toMatchObject({ agent: "host" });
  expect((await sessions.state(session))["n"]).toBeUndefined();
  const again = await finish(counting(), { sessions, session });
  // The answer that called the tool is in the log: it is not asked for again.
  expect(typesOf(again.events)).toEqual(["tools.answered", "model.answered", "agent.ended"]);
  expect((await sessions.state(session))["n"]).toBe(1);
  expect(await codeOf(sessions.rewind(session, 999))).toBe("version_not_found");
  expect(await codeOf(sessions.rewind(session, { before: "none" }))).toBe("version_not_found");
});

onEveryStore(
  "ISOLATION: an isolated conversation shares no state with others, and forks, rewinds and restores keep it so",
  async (place) => {
    const sessions = place.engine();
    const open = async (isolated: boolean) =>
      (await sessions.open({ user: "ann", isolated, state: { "app:a": isolated ? "own" : "all" } })).session;
    const [shared, alone] = [await open(false), await open(true)];
    await say(sessions, shared);
    await say(sessions, alone);
    await say(sessions, alone);
    expect(await sessions.state(shared)).toEqual({ n: 1, "user:total": 1, "app:a": "all" });
    expect(await sessions.state(alone)).toEqual({ n: 2, "user:total": 2, "app:a": "own" });
    const fork = await sessions.fork(alone, { set: { "user:total": 10 } });
    await say(sessions, fork.session);
    const { session: restored } = await sessions.restore(await sessions.save(alone));
    await sessions.rewind(alone, 1);
    expect(await sessions.state(fork.session)).toEqual({ n: 3, "user:total": 11, "app:a": "own" });
    expect(await sessions.state(restored)).toEqual({ n: 2, "user:total": 2, "app:a": "own" });
    expect(await sessions.state(alone)).toEqual({ "app:a": "own" });
    expect(await sessions.state(shared)).toEqual({ n: 1, "user:total": 1, "app:a": "all" });
  },
);

onEveryStore("conversations are listed by user and label", async (place) => {
  const sessions = place.engine();
  const a = await sessions.open({ user: "ann", labels: { topic: "bill" } });
  const b = await sessions.open({ user: "bob", labels: { topic: "bill" } });
  const ids = async (filter: Parameters<typeof sessions.list>[0]) =>
    (await all(sessions.list(filter))).map(({ session }) => session);
  expect(await ids({})).toEqual([a.session, b.session]);
  expect(await ids({ user: "bob" })).toEqual([b.session]);
  expect(await ids({ labels: { topic: "bill" }, user: "ann" })).toEqual([a.session]);
  expect(await ids({ labels: { topic: "none" } })).toEqual([]);
  expect(a).toMatchObject({ user: "ann", labels: { topic: "bill" }, environment: "agent:app" });
});

onEveryStore(
  "ONCE: an update outside of a turn is one event, and a repeat of its id changes nothing",
  async (place) => {
    const [one, two] = [place.engine(), await place.replica()];
    const { session } = await one.open({ state: { n: 0 } });
    const add = (sessions: Conversations, call?: string) =>
      sessions.update(
        session,
        (state) => {
          state["n"] += 1;
          state["user:seen"] = true;
        },
        call === undefined ? {} : { call },
      );
    await add(one, "a");
    await add(two, "a");
    await Promise.all([one, two].flatMap((sessions) => Array.from({ length: 5 }, () => add(sessions))));
    expect(await one.state(session)).toEqual({ n: 11, "user:seen": true });
    expect(typesOf(await logOf(one, session))).toEqual(["session.opened", ...Array(11).fill("session.updated")]);
  },
);

onEveryStore("a title and labels are set later, survive a rewind, and replicas list by them", async (place) => {
  const [one, two] = [place.engine(), await place.replica()];
  const agent = counting();
  const { session } = await one.open({ user: "ann", labels: { title: "First", topic: "bill" } });
  await finish(agent, { sessions: one, session, message: "Count." });
  const before = (await one.info(session)).version;
  const info = await two.label(session, { title: "The bill of May", topic: null, done: true });
  expect(info).toMatchObject({ user: "ann", version: before + 1 });
  expect(info.labels).toEqual({ title: "The bill of May", done: true });
  await one.rewind(session, 1);
  expect((await two.info(session)).labels).toEqual(info.labels);
  const found = await all(two.list({ user: "ann", labels: { title: "The bill of May" } }));
  expect(found).toMatchObject([{ session, labels: info.labels }]);
  expect(await all(two.list({ labels: { topic: "bill" } }))).toEqual([]);
  expect((await one.fork(session, { version: before })).labels).toEqual({ title: "First", topic: "bill" });
  expect(await one.replay(session, { agent: counting() })).toMatchObject({ same: true });
  await one.close(session);
  expect(await codeOf(one.label(session, { title: "Late" }))).toMatch(/^session_(?:closed|not_found)$/);
});

test("a label cannot change the user of a conversation, and labels must be an object of JSON", async () => {
  const sessions = createSessions({ app: "app", store: memoryStore() });
  const { session } = await sessions.open({ user: "ann" });
  for (const labels of [{ user: "bob" }, { user: null }, [], null, "title"] as never[]) {
    expect(await codeOf(sessions.label(session, labels))).toBe("invalid_option");
  }
  expect(await codeOf(sessions.label(session, { title: 1n as never }))).toBe("not_json");
  expect(await sessions.info(session)).toMatchObject({ user: "ann", labels: {}, version: 1 });
  await sessions.stop();
});

onEveryStore("ONCE: an update with a call id follows the rules of calls", async (place) => {
  const sessions = place.engine("app", { keepEnded: true });
  const { session } = await sessions.open();
  const add = (state: AgentState): void => void (state["n"] = (state["n"] ?? 0) + 1);
  for (const call of ["", "x".repeat(257), "half \ud800"]) {
    expect(await codeOf(sessions.update(session, add, { call })), JSON.stringify(call)).toBe("invalid_option");
  }
  const { version } = await sessions.update(session, add, { call: "u1" });
  expect(await sessions.update(session, add, { call: "u1" })).toMatchObject({ version });
  await sessions.rewind(session, 1);
  expect(await codeOf(sessions.update(session, add, { call: "u1" }))).toBe("call_undone");
  await sessions.update(session, add, { call: "u2" });
  await sessions.close(session);
  await sessions.update(session, add, { call: "u2" });
  expect(await codeOf(sessions.update(session, add, { call: "u3" }))).toBe("session_closed");
  expect(await sessions.state(session)).toEqual({ n: 1 });
});

onEveryStore(
  "ISOLATION: ids and users with half a surrogate pair are refused, and open no other session",
  async (place) => {
    const sessions = place.engine();
    expect(await codeOf(sessions.open({ session: "s\ud800" }))).toBe("invalid_option");
    expect(await codeOf(sessions.open({ user: "u\ud800" }))).toBe("invalid_option");
    // A store that keeps UTF-8 would read these ids as one that is stored.
    const { session } = await sessions.open({ session: "s\ufffd", user: "u\ufffd" });
    expect(await codeOf(sessions.state("s\ud800"))).toBe("session_not_found");
    expect(await codeOf(all(sessions.events("s\ud800")))).toBe("session_not_found");
    expect(await sessions.close("s\ud800")).toBe(false);
    expect((await sessions.info(session)).ended).toBeUndefined();
    expect(await codeOf(sessions.state(7 as unknown as string))).toBe("session_not_found");
  },
);

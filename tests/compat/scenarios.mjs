// How version 0.1 made the fixtures, with its own API. Run by generate.mjs and, for killed runs, by kill-child.mjs.
import { appendFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** A store that also writes every commit to a journal. `onCommit` hears of the events of each. */
export function recording(store, journal, { part, onCommit = () => undefined } = {}) {
  const write = (line) => appendFileSync(journal, `${JSON.stringify(part ? { store: part, ...line } : line)}\n`);
  return {
    ...store,
    async append(...commits) {
      const result = await store.append(...commits);
      if (result !== "ok") return result;
      write({ commits });
      for (const { entries } of commits) for (const { body } of entries) await onCommit(body);
      return result;
    },
    async delete(session, end) {
      const deleted = await store.delete(session, end);
      if (deleted) write({ delete: session });
      return deleted;
    },
  };
}

/** Version 0.1 behind the interface of open.ts. */
export function oldEngines(holdfast, define) {
  const { createAgentSessions, createSessions, memoryStore, replaySession, run } = holdfast;
  return {
    define: (options) => define(holdfast, options),
    newStore: memoryStore,
    episodes: (store, environment) => createSessions({ environment, store }),
    conversations: (store, app) => createAgentSessions({ app, store }),
    async turn(sessions, agent, session, start) {
      const items = [];
      const running = run(agent, { sessions, session, ...start });
      for (let next = await running.next(); ; next = await running.next()) {
        if (next.done) return { outcome: next.value.outcome, invocation: next.value.invocation, items };
        items.push(...(next.value.items ?? []));
      }
    },
    rewindBefore: (sessions, session, invocation) => sessions.rewind(session, invocation),
    async firstDifference(sessions, agent, session) {
      const saved = await sessions.save(session);
      const again = createAgentSessions({ app: saved.app, store: memoryStore() });
      const replayed = await replaySession(agent, saved, again);
      return replayed.same ? undefined : replayed.version;
    },
    verdict: ({ reward, total, calls, answer }) => ({ reward, total, calls, answer }),
  };
}

/** Episodes with everything that can be in their logs. */
async function ledger({ engines, store, definitions }) {
  const sessions = engines.episodes(store, definitions.ledger);
  const task = { start: 1, goal: 10 };
  const labels = { rollout: "r-1", attempt: 0 };

  const whole = "ledger-whole";
  await sessions.open({ session: whole, task, random: 7, labels });
  const call = (id, tool, input = {}) => sessions.call(whole, tool, input, id === undefined ? {} : { call: id });
  await call("a-1", "add", { n: 4 });
  await call("a-1", "add", { n: 4 });
  await call(undefined, "add", { n: 1 });
  await call("a-2", "look");
  await call("a-3", "fail");
  await call("a-4", "no_such_tool");
  await call("a-5", "add", { n: "five" });
  await call("a-6", "stamp");
  await Promise.all([call("g-1", "gather", { n: 1 }), call("g-2", "gather", { n: 1 }), call("a-7", "add", { n: 1 })]);
  await call("s-1", "send", { n: 1 });
  await sessions.verify(whole);
  await sessions.verify(whole, { response: { text: "ten" } });
  await sessions.verify(whole, { task: { start: 1, goal: 11 } });
  const { version } = await sessions.info(whole);
  await call("a-8", "add", { n: 100 });
  await sessions.rewind(whole, version);
  await call("a-9", "add", { n: 2 });
  await sessions.seed(whole, { start: 0, goal: 3 }, { call: "seed-2", random: 8, labels: { rollout: "r-2" } });
  await call("a-1", "add", { n: 3 });
  await sessions.verify(whole);
  await sessions.seed(whole, { start: 5, goal: 5 }, { random: 9 });

  await sessions.fork(whole, { version, session: "ledger-forked" });
  await sessions.call("ledger-forked", "add", { n: 1 }, { call: "a-1" });
  await sessions.verify("ledger-forked");
  await sessions.fork("ledger-forked", { session: "ledger-forked-again" });

  await sessions.open({ session: "ledger-unseeded", random: 3 });
  await sessions.call("ledger-unseeded", "add", { n: 2 }, { call: "u-1" });
  await sessions.verify("ledger-unseeded");

  await sessions.open({ session: "ledger-empty", random: 4 });

  await sessions.open({ session: "ledger-closed", task, random: 5 });
  await sessions.call("ledger-closed", "add", { n: 9 }, { call: "c-1" });
  await sessions.verify("ledger-closed");
  await sessions.close("ledger-closed");
  await sessions.stop();
}

/** Sessions that their limits ended, each for another reason. */
async function ledgerEnded({ holdfast, store, definitions }) {
  const { createSessions } = holdfast;
  const ended = async (name, limits) => {
    const environment = { ...definitions.ledger, name: `ledger-${name}` };
    const sessions = createSessions({ environment, store, limits });
    await sessions.open({ session: `ended-${name}`, task: { start: 1, goal: 1 }, random: 1 });
    await delay(20);
    if (name === "capacity") await sessions.open({ session: "ended-spared", task: { start: 1, goal: 1 }, random: 2 });
    else await sessions.expire();
    await sessions.stop();
  };
  await ended("idle", { idle: 5 });
  await ended("age", { age: 5 });
  await ended("capacity", { sessions: 1 });
}

/** An episode whose log is long enough for snapshots. */
async function ledgerLong({ engines, store, definitions }) {
  const sessions = engines.episodes(store, definitions.ledger);
  const session = "ledger-long";
  await sessions.open({ session, task: { start: 0, goal: 12 }, random: 11 });
  for (let n = 1; n <= 12; n++) {
    await sessions.call(session, "write", { text: `${n} `.repeat(400) }, { call: `w-${n}` });
    await sessions.call(session, "add", { n: 1 }, { call: `a-${n}` });
  }
  await sessions.verify(session);
  await sessions.stop();
}

/** Conversations of two users with every kind of step. */
async function office({ engines, store, definitions }) {
  const sessions = engines.conversations(store, "office");
  const say = (session, message, stateDelta) =>
    engines.turn(sessions, definitions.agents.office, session, { message, ...(stateDelta && { stateDelta }) });

  const state = { topic: "paper", "user:name": "Ann", "app:motto": "In order." };
  await sessions.open({ session: "office-ann", user: "ann", state });
  for (const message of ["note", "draw", "gather", "send", "mixed", "fail", "blocked", "ask", "mend", "silence"]) {
    await say("office-ann", message);
  }
  await say("office-ann", "note", { topic: "pens", "user:likes": ["tea"] });
  const { invocation } = await say("office-ann", "note", { wrong: true });
  await sessions.rewind("office-ann", invocation);
  await say("office-ann", "specialist");
  await say("office-ann", "how much?");
  await say("office-ann", "clerk");
  await say("office-ann", "bye", { topic: "farewell" });

  await sessions.open({ session: "office-ann-again", user: "ann" });
  await say("office-ann-again", "note");
  await say("office-ann-again", "hello", { "temp:canned": true });
  await say("office-ann-again", "hello", { "temp:skip": true });

  await sessions.open({ session: "office-failed", user: "bob", state: { topic: "ink" } });
  await say("office-failed", "note");
  await say("office-failed", "break");

  await sessions.open({ session: "office-closed", user: "cleo" });
  await say("office-closed", "note");
  await sessions.close("office-closed");

  await sessions.open({ session: "office-empty", user: "dan", state: { topic: "none" } });

  await sessions.restore(await sessions.save("office-failed"), "office-restored");
  await sessions.stop();
}

/** A conversation whose log, and that of its user, are long enough for snapshots. */
async function officeLong({ engines, store, definitions }) {
  const sessions = engines.conversations(store, "office-long");
  await sessions.open({ session: "office-long", user: "cy", state: { topic: "paper" } });
  for (let n = 0; n < 10; n++) {
    const stateDelta = { "user:memo": `${n} `.repeat(900) };
    await engines.turn(sessions, definitions.agents.office, "office-long", { message: "note", stateDelta });
  }
  await sessions.stop();
}

/** Agents in a sequence, in parallel and in a loop. */
async function crew({ engines, store, definitions }) {
  const sessions = engines.conversations(store, "crew");
  await sessions.open({ session: "crew-whole", user: "ann" });
  await engines.turn(sessions, definitions.agents.crew, "crew-whole", { message: "go" });
  await engines.turn(sessions, definitions.agents.crew, "crew-whole", { message: "again" });
  await sessions.stop();
}

/** A conversation that plays an episode of the ledger in the same store. */
async function desk({ engines, store, definitions }) {
  const episodes = engines.episodes(store, definitions.ledger);
  const sessions = engines.conversations(store, "desk");
  const agent = definitions.agents.desk(episodes);
  await sessions.open({ session: "desk-whole", user: "ann", state: { task: { start: 1, goal: 10 } } });
  await engines.turn(sessions, agent, "desk-whole", { message: "add 2 and 3" });
  await engines.turn(sessions, agent, "desk-whole", { message: "add 4" });
  await sessions.stop();
  await episodes.stop();
}

/** By the name of their journal. */
export const scenarios = {
  ledger,
  "ledger-ended": ledgerEnded,
  "ledger-long": ledgerLong,
  office,
  "office-long": officeLong,
  crew,
  desk,
};

/**
 * Runs that a kill -9 ends: at an external effect, or at the n-th commit of an event.
 * `open` prepares the session; `turn` or `call` is running when the process is killed.
 */
export const kills = [
  { journal: "ledger-killed", session: "killed-claimed", call: ["send", { n: 5 }, "s-1"], at: "effect" },
  { journal: "office-killed", session: "killed-effect", turn: "mixed", at: "effect" },
  { journal: "office-killed", session: "killed-began", turn: "note", at: ["invocation.began", 1] },
  { journal: "office-killed", session: "killed-answered", turn: "gather", at: ["model.answered", 1] },
  { journal: "office-killed", session: "killed-results", turn: "note", at: ["tools.answered", 1] },
  { journal: "crew-killed", session: "killed-pair", turn: "go", at: ["model.answered", 2] },
  { journal: "crew-killed", session: "killed-rounds", turn: "go", at: ["tools.answered", 3] },
  { journal: "desk-killed", session: "killed-desk", turn: "add 2 and 3", at: ["tool.called", 1] },
];

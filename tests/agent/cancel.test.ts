// A cancelled run ends, even if its code never returns, and a session is opened completely or not at all.
import { createSessions, defineAgent, HoldfastError, memoryStore, run, scriptedModel, type Callbacks } from "holdfast";
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";
import { codeOf, finish, gate, logOf, onEveryStore } from "./engine.ts";

const never = (): Promise<undefined> => new Promise(() => undefined);
class Query {
  then = never; // eslint-disable-line unicorn/no-thenable -- as queries of some libraries
}
const hooks: (keyof Callbacks)[] = ["beforeAgent", "beforeModel", "afterModel", "afterAgent"];
const hanging: [string, Partial<Parameters<typeof defineAgent>[0]>][] = [
  ...hooks.map((hook): [string, object] => [hook, { callbacks: { [hook]: never } }]),
  ["beforeModel, not a promise but with a `then`", { callbacks: { beforeModel: () => new Query() as never } }],
  ["instruction", { instruction: never as () => Promise<never> }],
  ["toolset's list", { toolsets: [{ list: never as () => Promise<never>, call: never as () => Promise<never> }] }],
];

test.each(hanging)("a run whose %s never returns can be cancelled, and the session is free", async (_, options) => {
  const sessions = createSessions({ app: "cancel", store: memoryStore() });
  const { session } = await sessions.open();
  const stuck = defineAgent({ name: "agent", model: scriptedModel(["hello"]), ...options });
  const stopping = new AbortController();
  const running = (async () => {
    for await (const event of run(stuck, { sessions, session, message: "hi", signal: stopping.signal })) void event;
  })();
  setImmediate(() => setImmediate(() => stopping.abort()));
  await expect(running).rejects.toMatchObject({ code: "run_cancelled" });
  const free = defineAgent({ name: "agent", model: scriptedModel(["hello", "again"]) });
  const types: string[] = [];
  for await (const { type } of run(free, { sessions, session, message: "hi", busy: "refuse" })) types.push(type);
  expect(types.at(-1)).toBe("agent.ended");
});

test("ATOMIC: a session is opened with all its shared state, or not at all", async () => {
  const store = memoryStore();
  let failing = false;
  const flaky: Store = {
    ...store,
    append(commit, ...together) {
      if (failing && [commit, ...together].some(({ session }) => session.startsWith("holdfast:"))) {
        return Promise.reject(new HoldfastError("store_failed", "no"));
      }
      return store.append(commit, ...together);
    },
  };
  const sessions = createSessions({ app: "cancel", store: flaky });
  await sessions.open({ state: { "user:known": 1 } });
  failing = true;
  await expect(sessions.open({ session: "s", state: { x: 1, "user:y": 2 } })).rejects.toMatchObject({
    code: "store_failed",
  });
  await expect(sessions.info("s")).rejects.toMatchObject({ code: "session_not_found" });
  failing = false;
  await sessions.open({ session: "s", state: { x: 1, "user:y": 2 } });
  expect(await sessions.state("s")).toEqual({ x: 1, "user:known": 1, "user:y": 2 });
  await expect(sessions.open({ session: "s", state: { "user:y": 3 } })).rejects.toMatchObject({
    code: "session_exists",
  });
  expect((await sessions.state("s"))["user:y"]).toBe(2);
});

/** An agent whose model waits until it is told to answer, or until its run is cancelled. */
function waiting() {
  const [asked, told] = [gate(), gate()];
  const model = scriptedModel(async () => {
    asked.open();
    await told.opened;
    return "hello";
  });
  return { agent: defineAgent({ name: "agent", model }), asked: asked.opened, answer: told.open };
}

onEveryStore("a running turn is cancelled by its session, here or from another process", async (place) => {
  for (const isElsewhere of [false, true]) {
    const sessions = place.engine("cancel", { lease: 300 });
    const other = isElsewhere ? place.engine("cancel", { lease: 300 }) : sessions;
    const { session } = await sessions.open();
    expect(await other.cancel(session)).toBe(false);
    const { agent, asked, answer } = waiting();
    const running = codeOf(finish(agent, { sessions, session, message: "hi", call: "m1" }));
    await asked;
    expect(await other.cancel(session, { invocation: "another turn" })).toBe(false);
    const { turn } = await sessions.info(session);
    expect(await other.cancel(session, { invocation: turn?.invocation })).toBe(true);
    // A process notices that another one cancelled its turn when it renews its lease.
    expect(await running).toBe(isElsewhere ? "turn_lost" : "run_cancelled");
    answer();
    expect((await logOf(sessions, session)).at(-1)).toMatchObject({ type: "turn.released", reason: "cancelled" });
    expect(await other.cancel(session)).toBe(false);
    // The turn was not undone: a repeat of its message continues it.
    const again = await finish(agent, { sessions: other, session, message: "hi", call: "m1" });
    expect(again).toMatchObject({ outcome: "answered", invocation: turn?.invocation });
  }
});

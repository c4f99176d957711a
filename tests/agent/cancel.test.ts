// A cancelled run ends, even if its code never returns, and a session is opened completely or not at all.
import { createSessions, defineAgent, HoldfastError, memoryStore, run, scriptedModel, type Callbacks } from "holdfast";
import { expect, test } from "vitest";
import type { Store } from "../../src/core/store.ts";

const never = (): Promise<undefined> => new Promise(() => undefined);
const hooks: (keyof Callbacks)[] = ["beforeAgent", "beforeModel", "afterModel", "afterAgent"];

test.each(hooks)("a run whose %s never returns can be cancelled, and the session is free", async (hook) => {
  const sessions = createSessions({ app: "cancel", store: memoryStore() });
  const { session } = await sessions.open();
  const stuck = defineAgent({ name: "agent", model: scriptedModel(["hello"]), callbacks: { [hook]: never } });
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

// Verbs of every session, on episodes: save and restore, lists by label, and a stop with a time limit.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, test } from "vitest";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

const task = { start: 0, goal: 3 };

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

onEveryStore(
  "a saved session can be restored anywhere: events, state, call ids and verdicts are the same",
  async (place) => {
    const sessions = place.engine(counter);
    const { session } = await sessions.open({ task });
    await sessions.call(session, "add", { by: 3 }, { call: "a" });
    const verdict = await sessions.verify(session);
    const saved = await sessions.save(session);
    expect(saved).toMatchObject({ of: "counter", session });
    const elsewhere = createSessions({ environment: counter, store: memoryStore() });
    const { session: copy } = await elsewhere.restore(JSON.parse(JSON.stringify(saved)) as typeof saved);
    expect(await all(elsewhere.events(copy))).toEqual(await all(sessions.events(session)));
    expect(await elsewhere.call(copy, "add", { by: 3 }, { call: "a" })).toMatchObject({
      repeated: true,
      output: { count: 3 },
    });
    expect(await elsewhere.verify(copy)).toEqual({ ...verdict, session: copy });
    expect(await elsewhere.replay(copy)).toEqual({ same: true, events: saved.events.length });
    await expect(sessions.restore(saved, session)).rejects.toMatchObject({ code: "session_exists" });
  },
);

onEveryStore("peek gives the info of a session, and undefined if it is missing or was deleted", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  expect(await sessions.peek(session)).toEqual(await sessions.info(session));
  expect(await sessions.peek("missing")).toBeUndefined();
  const renamed = place.engine(defineEnvironment({ name: "renamed", tools: {} }));
  expect(await renamed.peek(session)).toBeUndefined();
  const other = await place.replica(counter, { keepEnded: false });
  await other.close(session);
  expect(await sessions.peek(session)).toBeUndefined();
});

test("a file that is not a saved session is refused", async () => {
  const sessions = createSessions({ environment: counter, store: memoryStore() });
  const { session } = await sessions.open({ task });
  const saved = await sessions.save(session);
  const [opened, seeded] = saved.events;
  const files: unknown[] = [
    null,
    {},
    { ...saved, events: [] },
    { ...saved, events: [seeded] },
    { ...saved, events: [opened, opened] },
    { ...saved, events: [opened, { type: "agent.failed" }] },
    { ...saved, events: [opened, { type: "tool.called", at: 1, delta: [{ op: "remove", path: "/none" }] }] },
  ];
  for (const file of files) {
    await expect(sessions.restore(file as typeof saved)).rejects.toMatchObject({ code: "invalid_option" });
  }
});

onEveryStore("sessions are listed by their labels", async (place) => {
  const sessions = place.engine(counter);
  const a = await sessions.open({ task, labels: { run: "x", n: 1 } });
  const b = await sessions.open({ task, labels: { run: "x", n: 2 } });
  await sessions.open({ labels: { run: "y" } });
  const ids = async (filter: Parameters<typeof sessions.list>[0]): Promise<string[]> =>
    (await all(sessions.list(filter))).map(({ session }) => session);
  expect(await ids({ labels: { run: "x" } })).toEqual([a.session, b.session]);
  expect(await ids({ labels: { run: "x", n: 2 } })).toEqual([b.session]);
  expect(await ids({ labels: { run: "z" } })).toEqual([]);
  // Labels are those of the newest seed.
  await sessions.seed(b.session, task, { labels: { run: "y" } });
  expect(await ids({ labels: { run: "x" }, open: true })).toEqual([a.session]);
  expect(await all(sessions.list({ labels: { n: 1 } }))).toMatchObject([{ labels: { run: "x", n: 1 } }]);
});

test("a stop waits for running calls, and cancels them when its time is over", async () => {
  let aborted = false;
  const environment = defineEnvironment({
    name: "hanging",
    tools: {
      hang: tool({
        description: "Never returns.",
        run: ({ signal }) => {
          signal.addEventListener("abort", () => (aborted = true));
          return new Promise<void>(() => undefined);
        },
      }),
    },
  });
  const sessions = createSessions({ environment, store: memoryStore() });
  const { session } = await sessions.open();
  const [running, waiting] = [sessions.call(session, "hang"), sessions.call(session, "hang")];
  const codes = Promise.all([running, waiting].map((call) => call.catch(({ code }: { code: string }) => code)));
  await sessions.stop({ within: 20 });
  expect(await codes).toEqual(["engine_stopped", "engine_stopped"]);
  expect(aborted).toBe(true);
  await expect(sessions.open()).rejects.toMatchObject({ code: "engine_stopped" });
});

// Call ids: a repeat gets the recorded answer, from any sender, at any time, in any process.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, tool, type Json, type Store } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { everyStore } from "../every-store.ts";
import { gate } from "../agent/engine.ts";
import { clock } from "./clock.ts";
import { counter } from "./counter.ts";
import { onEveryStore, open } from "./engine.ts";

const task = { start: 0, goal: 1 };

onEveryStore(
  "ONCE: a repeat with the same arguments returns the recorded answer and changes nothing",
  async (place) => {
    const sessions = place.engine(counter);
    const { session } = await sessions.open({ task });
    const first = await sessions.call(session, "add", { by: 2 }, { call: "a" });
    await sessions.call(session, "add", { by: 5 }, { call: "b" });
    expect(await sessions.call(session, "add", { by: 2 }, { call: "a" })).toEqual({ ...first, repeated: true });
    expect((await sessions.info(session)).version).toBe(4);
    expect((await sessions.state(session)).count).toBe(7);
  },
);

onEveryStore("ONCE: the same id with other arguments or another tool is refused", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 2 }, { call: "a" });
  const conflict = { code: "call_conflict" };
  await expect(sessions.call(session, "add", { by: 3 }, { call: "a" })).rejects.toMatchObject(conflict);
  await expect(sessions.call(session, "read", {}, { call: "a" })).rejects.toMatchObject(conflict);
  await expect(sessions.call(session, "gather", { by: 1 }, { call: "a" })).rejects.toMatchObject(conflict);
  expect((await sessions.info(session)).version).toBe(3);
});

onEveryStore("ONCE: failed calls are recorded too", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const first = await sessions.call(session, "spoil", {}, { call: "a" });
  expect(first.ok).toBe(false);
  expect(await sessions.call(session, "spoil", {}, { call: "a" })).toEqual({ ...first, repeated: true });
});

onEveryStore("ONCE: concurrent repeats are applied once, in one engine and in several", async (place) => {
  const engines = [place.engine(counter), await place.replica(counter), await place.replica(counter)];
  const { session } = await engines[0]!.open({ task });
  const calls = Array.from({ length: 30 }, (_, n) => {
    const engine = engines[n % 3]!;
    return n % 2 === 0
      ? engine.call(session, "add", { by: 1 }, { call: `state ${n % 5}` })
      : engine.call(session, "gather", { by: 100 }, { call: `beside ${n % 5}` });
  });
  const answers = await Promise.all(calls);
  expect(answers.filter(({ repeated }) => !repeated)).toHaveLength(10);
  expect((await engines[1]!.state(session)).count).toBe(505);
  expect((await engines[2]!.info(session)).version).toBe(12);
});

onEveryStore("ONCE: ids hold after a restart, and after a hundred snapshots", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  const first = await sessions.call(session, "note", { text: "x".repeat(3000) }, { call: "first" });
  for (let n = 0; n < 200; n++)
    await sessions.call(session, "add", { by: 1 }, { call: `call ${n} ${"y".repeat(200)}` });
  const again = await place.restart(counter);
  const repeat = await again.call(session, "note", { text: "x".repeat(3000) }, { call: "first" });
  expect(repeat).toEqual({ ...first, repeated: true });
  expect((await again.state(session)).count).toBe(200);
});

onEveryStore("ONCE: ids are scoped to one episode, because models restart their numbering", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 2 }, { call: "call_1" });
  await sessions.seed(session, { start: 10, goal: 0 });
  expect(await sessions.call(session, "add", { by: 2 }, { call: "call_1" })).toMatchObject({
    output: { count: 12 },
    repeated: false,
  });
});

onEveryStore("ONCE: a seed with an id is applied once", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open();
  const first = await sessions.seed(session, task, { call: "s" });
  await sessions.call(session, "add", { by: 2 });
  expect(await sessions.seed(session, task, { call: "s" })).toEqual({ ...first, repeated: true });
  expect((await sessions.state(session)).count).toBe(2);
  await expect(sessions.seed(session, { start: 1, goal: 1 }, { call: "s" })).rejects.toMatchObject({
    code: "call_conflict",
  });
});

onEveryStore("ONCE: a call undone by a rewind is not applied again under its id", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 1 }, { call: "kept" });
  await sessions.call(session, "add", { by: 10 }, { call: "undone" });
  await sessions.rewind(session, 3);
  await expect(sessions.call(session, "add", { by: 10 }, { call: "undone" })).rejects.toMatchObject({
    code: "call_undone",
  });
  expect(await sessions.call(session, "add", { by: 1 }, { call: "kept" })).toMatchObject({ repeated: true });
  expect((await sessions.state(session)).count).toBe(1);
  // A rewind to before the rewind restores it.
  await sessions.rewind(session, 4);
  expect(await sessions.call(session, "add", { by: 10 }, { call: "undone" })).toMatchObject({ repeated: true });
  expect((await sessions.state(session)).count).toBe(11);
});

onEveryStore("ONCE: a call undone by a rewind stays undone after the next seed", async (place) => {
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  await sessions.call(session, "add", { by: 1 }, { call: "kept" });
  await sessions.call(session, "add", { by: 10 }, { call: "undone" });
  await sessions.rewind(session, 3);
  await sessions.seed(session, task);
  const first = { episode: 1 };
  await expect(sessions.call(session, "add", { by: 10 }, { call: "undone", ...first })).rejects.toMatchObject({
    code: "call_undone",
  });
  expect(await sessions.call(session, "add", { by: 1 }, { call: "kept", ...first })).toMatchObject({ repeated: true });
});

onEveryStore("ONCE: a seed or an external call undone by a rewind does not return its old answer", async (place) => {
  const { environment } = mailer(() => undefined);
  const sessions = place.engine(environment);
  const { session } = await sessions.open({ task: {} });
  await sessions.call(session, "send", { to: "ann" }, { call: "m1" });
  await sessions.seed(session, {}, { call: "s1" });
  await sessions.rewind(session, 3);
  const undone = { code: "call_undone" };
  await expect(sessions.call(session, "send", { to: "ann" }, { call: "m1" })).rejects.toMatchObject(undone);
  await expect(sessions.seed(session, {}, { call: "s1" })).rejects.toMatchObject(undone);
  await expect(sessions.seed(session, {}, { call: "" })).rejects.toMatchObject({ code: "invalid_option" });
});

onEveryStore("ONCE: an answer can be requested again after the session has ended", async (place) => {
  const sessions = place.engine(counter, { keepEnded: true });
  const { session } = await sessions.open({ task });
  const first = await sessions.call(session, "add", { by: 1 }, { call: "a" });
  await sessions.close(session);
  expect(await sessions.call(session, "add", { by: 1 }, { call: "a" })).toEqual({ ...first, repeated: true });
  await expect(sessions.call(session, "add", { by: 1 }, { call: "b" })).rejects.toMatchObject({
    code: "session_closed",
  });
});

test("a call id must be a string of 1 to 256 characters", async () => {
  const place = await open(everyStore[0]!);
  const sessions = place.engine(counter);
  const { session } = await sessions.open({ task });
  for (const call of ["", "x".repeat(257), "\ud800", 7 as never, null as never]) {
    await expect(sessions.call(session, "read", {}, { call })).rejects.toMatchObject({ code: "invalid_option" });
  }
  for (const call of ["x".repeat(256), "__proto__", "a b\u0000c", "é😀"]) {
    expect(await sessions.call(session, "read", {}, { call })).toMatchObject({ ok: true, repeated: false });
    expect(await sessions.call(session, "read", {}, { call })).toMatchObject({ ok: true, repeated: true });
  }
});

// --- external tools

function mailer(behave: (n: number) => Promise<unknown> | unknown) {
  const sent: string[] = [];
  /** Waits until this many have been sent, or are about to be. */
  const until = async (count: number): Promise<void> => {
    while (sent.length < count) await sleep(1);
  };
  const environment = defineEnvironment({
    name: "mailer",
    state: z.object({ sent: z.array(z.string()).default([]) }),
    tools: {
      send: tool({
        description: "Sends mail.",
        input: z.object({ to: z.string() }),
        effects: "external",
        timeout: 500,
        run: async ({ update, call }, { to }) => {
          sent.push(`${to} ${call ?? ""}`.trim());
          await behave(sent.length);
          update((state) => {
            state.sent.push(to);
          });
          return { id: sent.length };
        },
      }),
    },
  });
  return { sent, environment, until };
}

onEveryStore("ONCE: an external tool runs once for its id, and its result is recorded", async (place) => {
  const { sent, environment } = mailer(() => sleep(5));
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  const answers = await Promise.all([1, 2, 3].map(() => sessions.call(session, "send", { to: "ann" }, { call: "m1" })));
  const again = await place.restart(environment);
  answers.push(await again.call(session, "send", { to: "ann" }, { call: "m1" }));
  expect(sent).toEqual(["ann m1"]);
  expect(answers.map(({ ok }) => ok)).toEqual([true, true, true, true]);
  expect(answers.map(({ repeated }) => repeated)).toEqual([false, true, true, true]);
  expect(await again.state(session)).toEqual({ sent: ["ann"] });
  await expect(again.call(session, "send", { to: "bob" }, { call: "m1" })).rejects.toMatchObject({
    code: "call_conflict",
  });
  // Without an id each call is a new one.
  await again.call(session, "send", { to: "ann" });
  expect(sent).toHaveLength(2);
});

onEveryStore(
  "ONCE: an external call without a recorded result has an unknown outcome, and is never run again",
  async (place) => {
    const { sent, environment, until } = mailer((n) => (n === 1 ? new Promise(() => undefined) : undefined));
    const { session } = await place.engine(environment).open();
    // A process that dies in the middle leaves only a claim: here its engine is abandoned.
    const dead = place.engine(environment, { timeout: 1e6 });
    void dead.call(session, "send", { to: "ann" }, { call: "m1" }).catch(() => undefined);
    await until(1);
    const other = await place.replica(environment);
    await expect(other.call(session, "send", { to: "ann" }, { call: "m1" })).rejects.toMatchObject({
      code: "call_in_progress",
    });
    await sleep(1700);
    const answer = await other.call(session, "send", { to: "ann" }, { call: "m1" });
    expect(answer).toMatchObject({ ok: false, error: { code: "outcome_unknown" } });
    expect(await other.call(session, "send", { to: "ann" }, { call: "m1" })).toMatchObject({
      ...answer,
      repeated: true,
    });
    expect(sent).toHaveLength(1);
    expect(await other.call(session, "send", { to: "ann" }, { call: "m2" })).toMatchObject({ ok: true });
  },
);

test("ONCE: an event from a clock that ran ahead does not lengthen the claim of an external call", async () => {
  const place = await open(everyStore[0]!);
  const { environment } = mailer(() => undefined);
  const time = clock();
  const sessions = place.engine(environment);
  time.jump(3_600_000);
  const { session } = await sessions.open();
  time.jump(-3_600_000);
  await sessions.call(session, "send", { to: "ann" }, { call: "m1" });
  for await (const event of sessions.events(session)) {
    if (event.type === "tool.claimed") expect(event.until - Date.now()).toBeLessThan(60_000);
  }
  expect.assertions(1);
});

test("ONCE: a claim made while a clock was ahead lapses once another process has watched it for its time", async () => {
  const place = await open(everyStore[0]!);
  const { environment, sent, until } = mailer(() => new Promise(() => undefined));
  const time = clock();
  const { session } = await place.engine(environment).open();
  const dead = place.engine(environment);
  time.jump(3_600_000);
  void dead.call(session, "send", { to: "ann" }, { call: "m1" }).catch(() => undefined);
  await until(1);
  time.jump(-3_600_000);
  const other = await place.replica(environment);
  const running = { code: "call_in_progress" };
  await expect(other.call(session, "send", { to: "ann" }, { call: "m1" })).rejects.toMatchObject(running);
  time.pass(1_400);
  await expect(other.call(session, "send", { to: "ann" }, { call: "m1" })).rejects.toMatchObject(running);
  time.pass(200);
  const unknown = { ok: false, error: { code: "outcome_unknown" } };
  expect(await other.call(session, "send", { to: "ann" }, { call: "m1" })).toMatchObject(unknown);
  expect(sent).toHaveLength(1);
});

/** A store that answers the next claim after `ms`. */
function lateStore(store: Store, ms: number): Store {
  const append: Store["append"] = async (...commits) => {
    const result = await store.append(...commits);
    if (commits[0].entries[0].body.includes('"tool.claimed"')) await sleep(ms);
    return result;
  };
  return new Proxy(store, {
    get: (target, name) => (name === "append" ? append : (Reflect.get(target, name) as unknown)),
  });
}

onEveryStore("ONCE: an external tool does not begin once its claim has run out", async (place) => {
  const { sent, environment } = mailer(() => undefined);
  const late = createSessions({ environment, store: lateStore(place.storage.store, 1_900) });
  const { session } = await late.open();
  const asked = late.call(session, "send", { to: "ann" }, { call: "m1" });
  await sleep(1_650);
  const other = await place.replica(environment);
  const unknown = { ok: false, error: { code: "outcome_unknown" } };
  expect(await other.call(session, "send", { to: "ann" }, { call: "m1" })).toMatchObject(unknown);
  expect(await asked).toMatchObject({ ...unknown, repeated: true });
  // Nobody asked meanwhile.
  const alone = await late.call(session, "send", { to: "bob" }, { call: "m2" });
  expect(alone).toMatchObject({ ...unknown, repeated: false });
  expect(alone.ok ? "" : alone.error.message).toContain("was not run");
  expect(sent).toEqual([]);
  await late.stop();
});

test("an external tool whose claim was confirmed late ends before its claim does", async () => {
  const place = await open(everyStore[0]!);
  const { environment } = mailer(() => new Promise(() => undefined));
  const late = createSessions({ environment, store: lateStore(place.storage.store, 1_200) });
  const { session } = await late.open();
  const began = performance.now();
  expect(await late.call(session, "send", { to: "ann" })).toMatchObject({ error: { code: "outcome_unknown" } });
  expect(performance.now() - began).toBeLessThan(1_650);
});

test("a repeat that waits for a running call can be cancelled, and the call continues", async () => {
  const place = await open(everyStore[0]!);
  const { environment, sent } = mailer(() => sleep(20));
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  const first = sessions.call(session, "send", { to: "ann" }, { call: "m1" });
  const controller = new AbortController();
  const repeat = sessions.call(session, "send", { to: "ann" }, { call: "m1", signal: controller.signal });
  await sleep(5);
  controller.abort();
  await expect(repeat).rejects.toMatchObject({ code: "call_cancelled" });
  expect(await first).toMatchObject({ ok: true });
  expect(sent).toHaveLength(1);
});

onEveryStore("an external call that is cancelled or outlived by its session is still recorded", async (place) => {
  const gate = { open: (): void => undefined };
  const { environment, until } = mailer(() => new Promise<void>((resolve) => (gate.open = resolve)));
  const sessions = place.engine(environment, { timeout: 50_000 });
  const { session } = await sessions.open();
  const controller = new AbortController();
  const call = sessions.call(session, "send", { to: "ann" }, { call: "m1", signal: controller.signal });
  await until(1);
  controller.abort();
  gate.open();
  expect(await call).toMatchObject({ ok: true });
  const late = sessions.call(session, "send", { to: "bob" }, { call: "m2" });
  await until(2);
  await sessions.seed(session, {});
  gate.open();
  expect(await late).toMatchObject({ ok: false, error: { code: "episode_ended" } });
  expect(await sessions.state(session)).toEqual({ sent: [] });
});

onEveryStore("ONCE: repeats that race through several engines are never taken for undone", async (place) => {
  const engines = [place.engine(counter), await place.replica(counter)];
  for (let round = 0; round < 25; round++) {
    const { session } = await engines[0]!.open();
    const seeds = engines.map((engine) => engine.seed(session, task, { call: "s" }));
    expect((await Promise.all(seeds)).filter(({ repeated }) => !repeated)).toHaveLength(1);
    const calls = engines.flatMap((engine) =>
      [1, 2].map(() => engine.call(session, "gather", { by: 1, ms: 0 }, { call: "c" })),
    );
    expect((await Promise.all(calls)).filter(({ repeated }) => !repeated)).toHaveLength(1);
  }
});

test("a session with a task and labels of the maximum depth can be opened and inspected", async () => {
  const place = await open(everyStore[0]!);
  const sessions = place.engine(defineEnvironment({ name: "deep", tools: {} }));
  let deep: Json = 1;
  for (let n = 0; n < 498; n++) deep = [deep];
  const { session } = await sessions.open({ task: { deep }, labels: { deep } });
  expect((await sessions.info(session)).labels).toEqual({ deep });
  await expect(sessions.info("holdfast:keys")).rejects.toMatchObject({ code: "session_not_found" });
});

onEveryStore("ONCE: retries of a running plain tool wait for it, and its handler runs once", async (place) => {
  let runs = 0;
  const passing = gate();
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({ n: z.number().default(0) }),
    tools: {
      hold: tool({
        description: "Waits, and adds one.",
        run: async ({ state }) => {
          runs++;
          await passing.opened;
          return ++state.n;
        },
      }),
    },
  });
  const sessions = place.engine(slow);
  const { session } = await sessions.open({ task: {} });
  const first = sessions.call(session, "hold", {}, { call: "c1" });
  await expect.poll(() => runs).toBe(1);
  const retries = [1, 2].map(() => sessions.call(session, "hold", {}, { call: "c1" }));
  // After a new seed, the same id is another call.
  const seeding = sessions.seed(session, {});
  passing.open();
  expect((await Promise.all([first, ...retries])).map((answer) => answer.ok && answer.output)).toEqual([1, 1, 1]);
  await seeding;
  expect(await sessions.call(session, "hold", {}, { call: "c1" })).toMatchObject({ output: 1, repeated: false });
  expect(runs).toBe(2);
});

onEveryStore("ONCE: retries of a running verify wait for its verdict", async (place) => {
  let runs = 0;
  const passing = gate();
  const judged = defineEnvironment({
    name: "judged",
    state: z.object({ n: z.number().default(0) }),
    verify: async () => {
      await passing.opened;
      return ++runs;
    },
    tools: {},
  });
  const sessions = place.engine(judged);
  const { session } = await sessions.open({ task: {} });
  const asked = [1, 2, 3].map(() => sessions.verify(session));
  passing.open();
  expect((await Promise.all(asked)).map(({ reward }) => reward)).toEqual([1, 1, 1]);
  expect(runs).toBe(1);
});

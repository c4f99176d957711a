// How sessions end: by close, by idle time, by age, by capacity.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { clock } from "./clock.ts";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";
import { heapInUse } from "./heap.ts";

const task = { start: 0, goal: 0 };

const gone = (keep: boolean): object => ({ code: keep ? "session_closed" : "session_not_found" });

async function listed(
  sessions: { list(filter?: { open?: boolean }): AsyncIterable<{ session: string }> },
  open?: boolean,
) {
  const ids: string[] = [];
  for await (const { session } of sessions.list(open === undefined ? {} : { open })) ids.push(session);
  return ids;
}

onEveryStore(
  "CLEANUP: a closed session refuses calls; closing twice is fine; its log is kept or deleted as configured",
  async (place) => {
    for (const keepEnded of [true, false]) {
      const sessions = place.engine(counter, { keepEnded });
      const other = await place.replica(counter, { keepEnded });
      const { session } = await sessions.open({ task });
      await other.call(session, "add", { by: 1 });
      expect(await Promise.all([1, 2, 3].map(() => sessions.close(session)))).toEqual([true, false, false]);
      expect(await other.close(session)).toBe(false);
      await expect(sessions.call(session, "read")).rejects.toMatchObject(gone(keepEnded));
      await expect(other.call(session, "read")).rejects.toMatchObject(gone(keepEnded));
      await expect(sessions.seed(session, task)).rejects.toMatchObject(gone(keepEnded));
      await expect(sessions.rewind(session, 2)).rejects.toMatchObject(gone(keepEnded));
      if (keepEnded) {
        expect(await sessions.info(session)).toMatchObject({ ended: "closed", version: 4 });
        expect(await sessions.state(session)).toMatchObject({ count: 1 });
        expect(await listed(sessions, false)).toEqual([session]);
        await place.storage.store.delete(session);
      }
      expect(await listed(sessions)).toEqual([]);
      expect(await place.storage.store.read(session, 0)).toBeUndefined();
    }
  },
);

onEveryStore("CLEANUP: closing stops running calls on the session, also those without an end", async (place) => {
  let reason: unknown;
  const environment = defineEnvironment({
    name: "endless",
    tools: {
      wait: tool({
        description: "Waits for ever.",
        run: ({ signal }) => {
          signal.addEventListener("abort", () => (reason = signal.reason));
          return new Promise<never>(() => undefined);
        },
      }),
      beside: tool({
        description: "Waits for ever.",
        concurrent: true,
        run: () => new Promise<never>(() => undefined),
      }),
    },
  });
  const sessions = place.engine(environment);
  const { session } = await sessions.open();
  const calls = [sessions.call(session, "beside"), sessions.call(session, "wait"), sessions.call(session, "wait")];
  const outcomes = Promise.allSettled(calls);
  await sleep(20);
  expect(await sessions.close(session)).toBe(true);
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "session_closed" } });
  }
  expect(reason).toMatchObject({ code: "session_closed" });
});

onEveryStore("CLEANUP: sessions that are idle for too long end, busy ones do not", async (place) => {
  const time = clock();
  const sessions = place.engine(counter, { limits: { idle: 60_000 }, keepEnded: true });
  const other = await place.replica(counter, { limits: { idle: 60_000 }, keepEnded: true });
  const busy = await sessions.open({ task });
  const idle = await sessions.open({ task });
  for (let n = 0; n < 4; n++) {
    time.pass(25_000);
    await other.call(busy.session, "add", { by: 1 });
    await sessions.expire();
  }
  expect(await sessions.info(idle.session)).toMatchObject({ ended: "idle" });
  expect(await sessions.info(busy.session)).toMatchObject({ version: 6 });
  expect((await sessions.info(busy.session)).ended).toBeUndefined();
  const ended = { code: "session_closed", detail: { reason: "idle" } };
  await expect(other.call(idle.session, "read")).rejects.toMatchObject(ended);
});

onEveryStore("CLEANUP: expire resolves when the sessions have ended, also for concurrent callers", async (place) => {
  const time = clock();
  const sessions = place.engine(counter, { limits: { idle: 60_000 } });
  for (let count = 0; count < 5; count++) await sessions.open({ task });
  time.pass(61_000);
  // Not the first one: it ends them all.
  const [first, second] = [sessions.expire(), sessions.expire()];
  expect(await second).toBe(0);
  expect(await listed(sessions, true)).toEqual([]);
  expect(await first).toBe(5);
});

onEveryStore("CLEANUP: they end by themselves", async (place) => {
  const sessions = place.engine(counter, { limits: { idle: 50 }, keepEnded: true });
  const { session } = await sessions.open({ task });
  while ((await sessions.info(session)).ended === undefined) await sleep(20);
  expect(await sessions.info(session)).toMatchObject({ ended: "idle" });
});

onEveryStore("CLEANUP: an overdue session has ended at the next call, independent of the timer", async (place) => {
  const time = clock();
  for (const [limit, reason] of [
    [{ age: 60_000 }, "age"],
    [{ idle: 60_000 }, "idle"],
  ] as const) {
    const sessions = place.engine(counter, { limits: limit, keepEnded: true });
    const { session } = await sessions.open({ task });
    time.pass(59_000);
    if (reason === "age") expect(await sessions.call(session, "read")).toMatchObject({ ok: true });
    time.pass(2000);
    const over = { code: "session_closed", detail: { reason } };
    await expect(sessions.call(session, "read")).rejects.toMatchObject(over);
    expect(await sessions.info(session)).toMatchObject({ ended: reason });
    await expect(sessions.seed(session, task)).rejects.toMatchObject(over);
  }
});

onEveryStore("CLEANUP: a clock that jumps for a moment ends no session", async (place) => {
  const time = clock();
  const sessions = place.engine(counter, { limits: { idle: 600_000, age: 3_600_000 }, keepEnded: true });
  const { session } = await sessions.open({ task });
  for (const jump of [1_200_000, 86_400_000, -1_200_000]) {
    time.jump(jump);
    expect(await sessions.expire()).toBe(0);
    expect(await sessions.call(session, "read")).toMatchObject({ ok: true });
    time.pass(30_000);
    expect(await sessions.expire()).toBe(0);
    time.jump(-jump);
    expect(await sessions.expire()).toBe(0);
  }
});

onEveryStore(
  "CLEANUP: a session opened while the clock was behind is not idle when the clock is right",
  async (place) => {
    const time = clock();
    const sessions = place.engine(counter, { limits: { idle: 600_000 }, keepEnded: true });
    time.jump(-1_200_000);
    const { session } = await sessions.open({ task });
    time.jump(1_200_000);
    expect(await sessions.expire()).toBe(0);
    expect(await sessions.call(session, "read")).toMatchObject({ ok: true });
  },
);

onEveryStore("CLEANUP: a clock that is set ahead for good is believed after a minute", async (place) => {
  const time = clock();
  const { session } = await place.engine(counter).open({ task });
  const sessions = await place.restart(counter, { limits: { idle: 600_000 }, keepEnded: true });
  time.jump(1_200_000);
  expect(await sessions.expire()).toBe(0);
  time.pass(61_000);
  expect(await sessions.expire()).toBe(1);
  expect(await sessions.info(session)).toMatchObject({ ended: "idle" });
});

onEveryStore("CLEANUP: sessions of an earlier process end too", async (place) => {
  const time = clock();
  const { session } = await place.engine(counter).open({ task });
  time.pass(30_000);
  const later = await place.restart(counter, { limits: { idle: 20_000, age: 1e9 }, keepEnded: true });
  const fresh = await later.open({ task });
  expect(await later.expire()).toBe(1);
  expect(await later.info(session)).toMatchObject({ ended: "idle" });
  expect(await listed(later, true)).toEqual([fresh.session]);
});

onEveryStore("CLEANUP: opening one too many ends the session that was idle for longest", async (place) => {
  const time = clock();
  const sessions = place.engine(counter, { limits: { sessions: 3 }, keepEnded: true });
  const ids: string[] = [];
  const openOne = async (engine: typeof sessions): Promise<void> => {
    time.pass(1000);
    ids.push((await engine.open({ task })).session);
  };
  for (let n = 0; n < 3; n++) await openOne(sessions);
  time.pass(1000);
  await sessions.call(ids[0]!, "add", { by: 1 });
  await openOne(sessions);
  expect(await sessions.info(ids[1]!)).toMatchObject({ ended: "capacity" });
  expect(await listed(sessions, true)).toEqual([ids[0], ids[2], ids[3]]);
  const again = await place.restart(counter, { limits: { sessions: 2 }, keepEnded: true });
  await openOne(again);
  expect(await listed(again, true)).toEqual([ids[3], ids[4]]);
});

test("CLEANUP: opening a session ends at most 100 of many surplus ones; the rest end in the background", async () => {
  const store = memoryStore();
  const before = createSessions({ environment: counter, store });
  for (let n = 0; n < 350; n++) await before.open({ task });
  const sessions = createSessions({ environment: counter, store, limits: { sessions: 10 } });
  const { session } = await sessions.open({ task });
  expect(await store.count("counter")).toBeGreaterThan(100);
  await expect.poll(() => store.count("counter")).toBe(10);
  expect((await sessions.info(session)).ended).toBeUndefined();
  await sessions.stop();
  await store.close();
});

onEveryStore("CLEANUP: neither a session with a running call nor the new one is ended to make room", async (place) => {
  const gate = { open: (): void => undefined };
  const gated = defineEnvironment({
    name: "gated",
    tools: { wait: tool({ description: "Waits.", run: () => new Promise<void>((resolve) => (gate.open = resolve)) }) },
  });
  const sessions = place.engine(gated, { limits: { sessions: 1 }, keepEnded: true });
  const first = await sessions.open();
  const call = sessions.call(first.session, "wait");
  const second = await sessions.open();
  expect((await sessions.info(second.session)).ended).toBeUndefined();
  gate.open();
  expect(await call).toMatchObject({ ok: true });
  await sleep(2);
  await sessions.rewind(second.session, 1);
  expect(await sessions.expire()).toBe(1);
  expect(await sessions.info(first.session)).toMatchObject({ ended: "capacity" });
});

onEveryStore(
  "CLEANUP: many opened at once leave as many as there is room for, and the new ones among them",
  async (place) => {
    const sessions = place.engine(counter, { limits: { sessions: 20 }, keepEnded: true });
    const open = (count: number): Promise<{ session: string }[]> =>
      Promise.all(Array.from({ length: count }, () => sessions.open({ task })));
    await open(20);
    await sleep(2);
    const fresh = await open(10);
    const left = await listed(sessions, true);
    expect(left).toHaveLength(20);
    expect(left).toEqual(expect.arrayContaining(fresh.map(({ session }) => session)));
    // Sessions ended by another engine make room too.
    const other = await place.replica(counter, { keepEnded: true });
    for (const session of left) await other.close(session);
    await open(15);
    expect(await listed(sessions, true)).toHaveLength(15);
  },
);

onEveryStore("CLEANUP: idle time starts when a call ends, and does not end a running call", async (place) => {
  const time = clock();
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({ n: z.number().default(0) }),
    tools: {
      work: tool({
        description: "Takes long.",
        run: async ({ state }) => {
          await sleep(1);
          time.pass(90_000);
          return ++state.n;
        },
      }),
      beside: tool({
        description: "Takes long, beside others.",
        concurrent: true,
        run: async ({ update }) => {
          await sleep(1);
          time.pass(90_000);
          update((state) => void state.n++);
        },
      }),
      send: tool({
        description: "Takes long, out in the world.",
        effects: "external",
        run: async ({ update }) => {
          await sleep(1);
          time.pass(90_000);
          update((state) => void state.n++);
        },
      }),
    },
  });
  const sessions = place.engine(slow, { limits: { idle: 60_000 }, keepEnded: true });
  const { session } = await sessions.open();
  for (const name of ["work", "beside", "send", "work"] as const) {
    expect(await sessions.call(session, name)).toMatchObject({ ok: true });
  }
  expect(await sessions.state(session)).toEqual({ n: 4 });
  expect(await sessions.replay(session)).toMatchObject({ same: true });
});

test("CLEANUP: a limit must be a number greater than 0", () => {
  for (const limits of [{ idle: 0 }, { age: -1 }, { sessions: Number.NaN }]) {
    expect(() => createSessions({ environment: counter, store: memoryStore(), limits })).toThrow("greater than 0");
  }
  expect(() => createSessions({ environment: counter, store: memoryStore(), timeout: 0 })).toThrow("greater than 0");
});

test("CLEANUP: ended sessions release their memory", async () => {
  const blob = defineEnvironment({
    name: "blob",
    state: z.object({ text: z.string().default("") }),
    tools: {
      fill: tool({
        description: "Fills.",
        run: ({ state }) => void (state.text = "x".repeat(100_000) + Math.random()),
      }),
    },
  });
  const sessions = createSessions({ environment: blob, store: memoryStore(), limits: { sessions: 10 } });
  // 500 sessions of 100 KB, and as much again in their events: 100 MB, if any of it stayed.
  const before = heapInUse();
  for (let n = 0; n < 500; n++) await sessions.call((await sessions.open()).session, "fill");
  expect(await listed(sessions)).toHaveLength(10);
  expect(heapInUse() - before).toBeLessThan(10e6);
});

// How sessions end: by close, by idle time, by age, by capacity.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { expect, test } from "vitest";
import { z } from "zod";
import { counter } from "./counter.ts";
import { onEveryStore } from "./engine.ts";

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
  "CLEANUP: a closed session takes no calls; closing twice is fine; its log is kept or gone as asked",
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

onEveryStore("CLEANUP: closing stops what runs on the session, also what would never return", async (place) => {
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

onEveryStore("CLEANUP: idle sessions end by themselves, busy ones do not", async (place) => {
  const sessions = place.engine(counter, { limits: { idle: 150 }, keepEnded: true });
  const busy = await sessions.open({ task });
  const idle = await sessions.open({ task });
  for (let n = 0; n < 8; n++) {
    await sleep(50);
    await sessions.call(busy.session, "add", { by: 1 });
  }
  expect(await sessions.info(idle.session)).toMatchObject({ ended: "idle" });
  expect(await sessions.info(busy.session)).toMatchObject({ version: 10 });
  expect((await sessions.info(busy.session)).ended).toBeUndefined();
  await expect(sessions.call(idle.session, "read")).rejects.toMatchObject({
    code: "session_closed",
    detail: { reason: "idle" },
  });
});

onEveryStore(
  "CLEANUP: a session that is over its time is over at the next call, whatever the clock's tick",
  async (place) => {
    const sessions = place.engine(counter, { limits: { age: 60_000 }, keepEnded: true });
    const young = place.engine(counter, { keepEnded: true });
    const { session } = await young.open({ task });
    await sleep(5);
    const strict = place.engine(counter, { limits: { age: 1 }, keepEnded: true });
    expect(await sessions.call(session, "read")).toMatchObject({ ok: true });
    await expect(strict.call(session, "read")).rejects.toMatchObject({
      code: "session_closed",
      detail: { reason: "age" },
    });
    await strict.stop();
    expect(await sessions.info(session)).toMatchObject({ ended: "age" });
  },
);

onEveryStore("CLEANUP: sessions of an earlier process end too", async (place) => {
  const { session } = await place.engine(counter).open({ task });
  await sleep(30);
  const later = await place.restart(counter, { limits: { idle: 20, age: 1e9 }, keepEnded: true });
  const fresh = await later.open({ task });
  expect(await later.expire()).toBe(1);
  expect(await later.info(session)).toMatchObject({ ended: "idle" });
  expect(await listed(later, true)).toEqual([fresh.session]);
});

onEveryStore("CLEANUP: opening one too many ends the session that was idle for longest", async (place) => {
  const sessions = place.engine(counter, { limits: { sessions: 3 }, keepEnded: true });
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    ids.push((await sessions.open({ task })).session);
    await sleep(2);
  }
  await sessions.call(ids[0]!, "add", { by: 1 });
  await sleep(2);
  ids.push((await sessions.open({ task })).session);
  expect(await sessions.info(ids[1]!)).toMatchObject({ ended: "capacity" });
  expect(await listed(sessions, true)).toEqual([ids[0], ids[2], ids[3]]);
  const again = await place.restart(counter, { limits: { sessions: 2 }, keepEnded: true });
  await sleep(2);
  const { session } = await again.open({ task });
  expect(await listed(again, true)).toEqual([ids[3] ?? "", session]);
});

test("CLEANUP: a limit must be a number above 0", () => {
  for (const limits of [{ idle: 0 }, { age: -1 }, { sessions: Number.NaN }]) {
    expect(() => createSessions({ environment: counter, store: memoryStore(), limits })).toThrow("above 0");
  }
  expect(() => createSessions({ environment: counter, store: memoryStore(), timeout: 0 })).toThrow("above 0");
});

test("CLEANUP: ended sessions give back the memory they held", async () => {
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
  // 500 sessions of 100 KB and their events: 100 MB and more, if any of it stayed.
  const before = process.memoryUsage().heapUsed;
  for (let n = 0; n < 500; n++) await sessions.call((await sessions.open()).session, "fill");
  expect(await listed(sessions)).toHaveLength(10);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(80e6);
});

// A store that does not answer: waiting calls on a session are refused together with the running one, not one by one.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, HoldfastError, memoryStore } from "holdfast";
import { expect, test } from "vitest";
import { counter } from "./counter.ts";

test("waiting calls of one session are refused together when the store does not answer, and later ones are tried", async () => {
  const store = memoryStore();
  let away = false;
  let tried = 0;
  const slow: typeof store = {
    ...store,
    async append(...commits) {
      if (!away) return store.append(...commits);
      tried++;
      await sleep(700);
      throw new HoldfastError("store_busy", "the store cannot be reached");
    },
  };
  const sessions = createSessions({ environment: counter, store: slow });
  const { session } = await sessions.open({ task: { start: 0, goal: 1 } });
  away = true;
  const codeOf = (thrown: unknown): unknown => (thrown as HoldfastError).code;
  const calls = Array.from({ length: 20 }, () => sessions.call(session, "add", { by: 1 }).catch(codeOf));
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["store_busy"]));
  expect(tried).toBe(1);

  // A call that arrived just before the refusal gets its own try.
  const first = sessions.call(session, "add", { by: 1 }).catch(codeOf);
  await sleep(650);
  const second = sessions.call(session, "add", { by: 1 });
  away = false;
  expect(await first).toBe("store_busy");
  expect(await second).toMatchObject({ ok: true });
  expect(await sessions.state(session)).toMatchObject({ count: 1 });
});

test("a call tells the store how long it has waited for it, to load and to refresh its session", async () => {
  const store = memoryStore();
  const waits: (number | undefined)[] = [];
  const slow: typeof store = {
    ...store,
    load: (...asked) => sleep(60).then(() => store.load(...asked)),
    read: (...asked) => sleep(60).then(() => store.read(...asked)),
    append(...commits) {
      waits.push(commits[0].waited);
      return store.append(...commits);
    },
  };
  const { session } = await createSessions({ environment: counter, store }).open({ task: { start: 0, goal: 1 } });
  const sessions = createSessions({ environment: counter, store: slow });
  await sessions.call(session, "add", { by: 1 });
  await sessions.call(session, "add", { by: 1 });
  for (let look = 0; look < 3; look++) await sessions.info(session);
  await sessions.seed(session, { start: 0, goal: 1 }, { call: "again" });
  const [loaded = 0, ready, refreshed = 0] = waits;
  expect(loaded).toBeGreaterThan(50);
  expect(ready).toBe(0);
  // Reads of other calls do not count.
  expect(refreshed).toBeGreaterThan(50);
  expect(refreshed).toBeLessThan(120);
});

test("a call that the store applied, and lost before its answer was read, is to be sent again", async () => {
  const store = memoryStore();
  let lost = false;
  const failing: typeof store = {
    ...store,
    append: async (...commits) => (lost ? "duplicate" : store.append(...commits)),
  };
  const sessions = createSessions({ environment: counter, store: failing });
  const { session } = await sessions.open({ task: { start: 0, goal: 1 } });
  lost = true;
  const call = sessions.call(session, "add", { by: 1 }, { call: "a" });
  await expect(call).rejects.toMatchObject({ code: "store_failed" });
  lost = false;
  expect(await sessions.call(session, "add", { by: 1 }, { call: "a" })).toMatchObject({ ok: true, repeated: false });
});

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

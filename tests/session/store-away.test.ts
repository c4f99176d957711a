// A store that does not answer: waiting calls on a session are refused together with the running one, not one by one.
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineAgent, HoldfastError, memoryStore, run, scriptedModel } from "holdfast";
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

/** A store that pauses at every append, and the times that its callers had waited before each append and find. */
function slowStore(pause: (request: number) => number) {
  const fast = memoryStore();
  const waits: (number | undefined)[] = [];
  const store: typeof fast = {
    ...fast,
    async append(...commits) {
      await sleep(pause(waits.push(commits[0].waited)));
      return fast.append(...commits);
    },
    find(session, key, waited) {
      waits.push(waited);
      return fast.find(session, key);
    },
  };
  return { store, waits };
}

test("a call's time for the store passes while it waits behind others, and between its own requests", async () => {
  const { store, waits } = slowStore(() => 60);
  const sessions = createSessions({ environment: counter, store });
  const { session } = await sessions.open({ task: { start: 0, goal: 1 } });
  waits.length = 0;
  const call = (id: string) => sessions.call(session, "add", { by: 1 }, { call: id });
  await Promise.all(["a", "b", "c"].map(call));
  await call("c");
  const [first, second = 0, third = 0, again, found = 0] = waits;
  expect([first, again]).toEqual([0, 0]);
  expect(second).toBeGreaterThan(50);
  expect(third).toBeGreaterThan(second + 50);
  expect(found).toBeGreaterThan(50);
});

test("calls that wait for one load of their session are all charged for it", async () => {
  const store = memoryStore();
  const waits: number[] = [];
  const slow: typeof store = {
    ...store,
    load: (...asked) => sleep(300).then(() => store.load(...asked)),
    append(...commits) {
      waits.push(commits[0].waited ?? 0);
      return store.append(...commits);
    },
  };
  const { session } = await createSessions({ environment: counter, store }).open({ task: { start: 0, goal: 1 } });
  const sessions = createSessions({ environment: counter, store: slow });
  const call = () => sessions.call(session, "add", { by: 1 });
  await Promise.all([call(), call(), call()]);
  expect(Math.min(...waits)).toBeGreaterThan(250);
  await sleep(50);
  await call();
  expect(waits.at(-1)).toBe(0);
});

test("a call that came late behind a slow one is charged only for its own wait", async () => {
  const { store, waits } = slowStore((request) => (request === 2 ? 600 : 0));
  const sessions = createSessions({ environment: counter, store });
  const { session } = await sessions.open({ task: { start: 0, goal: 1 } });
  const first = sessions.call(session, "add", { by: 1 });
  await sleep(400);
  await Promise.all([first, sessions.call(session, "add", { by: 1 })]);
  const waited = waits[2] ?? 0;
  expect(waited).toBeGreaterThan(0);
  expect(waited).toBeLessThan(600);
});

/** Runs a turn of 1.5 seconds on a slow store, with an update that waits for it. Returns how long commits had waited. */
async function waitsInTurn(lease: number): Promise<{ steps: number[]; update: number }> {
  const store = memoryStore();
  const [steps, updates]: number[][] = [[], []];
  const slow: typeof store = {
    ...store,
    load: (...asked) => sleep(60).then(() => store.load(...asked)),
    async append(...commits) {
      for (const { entries, waited = 0 } of commits) {
        (entries[0].body.includes("session.updated") ? updates : steps)!.push(waited);
      }
      await sleep(60);
      return store.append(...commits);
    },
  };
  const sessions = createSessions({ app: "slow", store: slow, lease });
  const agent = defineAgent({ name: "host", model: scriptedModel(() => sleep(1_500).then(() => "Yes.")) });
  const { session } = await sessions.open();
  let updated: Promise<unknown> | undefined;
  for await (const _ of run(agent, { sessions, session, message: "hello" })) {
    updated ??= sessions.update(session, (state) => void (state["seen"] = true));
  }
  await updated;
  return { steps: steps!, update: updates![0]! };
}

test("every step of a turn has its own time for the store, however often the turn renewed its lease", async () => {
  const { steps } = await waitsInTurn(300);
  expect(steps.length).toBeGreaterThan(10);
  // At most the refresh before the turn's first commit.
  expect(Math.max(...steps)).toBeLessThan(500);
});

test("a call that waited for a turn, and hardly for the store, has its own time", async () => {
  // Only its own refresh.
  expect((await waitsInTurn(15_000)).update).toBeLessThan(300);
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

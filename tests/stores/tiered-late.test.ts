// The tiered store when a request, an answer or a whole process is late.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Commit, Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { tieredStore } from "../../src/stores/tiered.ts";
import { bodiesOf, idsOf } from "./tiered-reading.ts";

const hour = 3_600_000;
/** Entries dated by a counter are always idle for that long. Automatic sweeps come once an hour. */
const idle = 4 * hour;
const never = 1e15;
const heading = { environment: "shop", opened: 1 };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "performance", "setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

/** Waits until everything that can proceed without us has stopped. */
const stillness = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let clock = 0;
function commitOf(session: string, version: number, body: string, more: Partial<Commit> = {}): Commit {
  const entries: Commit["entries"] = [{ body: JSON.stringify(body), at: ++clock }];
  return { session, version, entries, ...(version === 0 && { heading }), ...more };
}

/** A store that holds some requests until they are released. */
function held(inner: Store, isHeld: (verb: "append" | "delete", ids: string[]) => boolean) {
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));
  const store: Store = {
    ...inner,
    async append(...commits) {
      const ids = commits.map(({ session }) => session);
      if (isHeld("append", ids)) await released;
      return inner.append(...commits);
    },
    async delete(id, end) {
      if (isHeld("delete", [id])) await released;
      return inner.delete(id, end);
    },
  };
  return { store, release };
}

test("DURABLE: a late removal of a deleted session's ticket takes nothing of the session opened since", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const slow = held(hot, (verb, [id]) => verb === "delete" && id === "s");
  const [one, other] = [slow.store, hot].map((each) => tieredStore({ hot: each, cold, idle: never }));
  await other!.append(commitOf("s", 0, "old"));
  await other!.delete("s");
  const late = one!.append(commitOf("s", 0, "late"));
  await stillness();
  expect(await other!.append(commitOf("s", 0, "new"))).toBe("ok");
  slow.release();
  expect(await late).toBe("conflict");
  expect(await bodiesOf(other!, "s")).toEqual(["new"]);
});

test("DURABLE: a session whose mover was away for days is where its ticket says", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const slow = held(hot, (verb) => verb === "append");
  // It moves nothing, and watches both stores.
  const keeper = tieredStore({ hot, cold, idle: 1000 * hour });
  await keeper.append({ ...commitOf("s", 0, "a"), entries: [{ body: '"a"', at: Date.now() }] });
  const mover = tieredStore({ hot: slow.store, cold, idle: 0 });
  const late = mover.sweep();
  await stillness();
  for (let hours = 0; hours < 60; hours++) {
    vi.advanceTimersByTime(hour);
    await keeper.sweep();
  }
  slow.release();
  expect(await late).toBe(1);
  expect(await bodiesOf(keeper, "s")).toEqual(["a"]);
});

test("DURABLE: an outdated location does not receive the next commit", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  let answer: (() => void) | undefined;
  let isSlow = false;
  const slow: Store = {
    ...hot,
    // Left behind by its mover.
    delete: async () => true,
    async load(id) {
      const found = await hot.load(id);
      if (id === "s" && isSlow) {
        isSlow = false;
        await new Promise<void>((resolve) => (answer = resolve));
      }
      return found;
    },
  };
  const store = tieredStore({ hot: slow, cold, idle });
  const at = (): void => void vi.advanceTimersByTime(1);
  await store.append(commitOf("s", 0, "a"));
  isSlow = true;
  at();
  const reading = store.read("s", 0);
  await stillness();
  at();
  expect(await store.sweep()).toBe(1);
  at();
  expect(await store.append(commitOf("s", 1, "b"))).toBe("ok");
  at();
  answer!();
  await reading;
  expect(await store.append(commitOf("s", 2, "c"))).toBe("ok");
  expect(await bodiesOf(store, "s")).toEqual(["a", "b", "c"]);
});

test("a session whose log was lost is reported, and can be deleted", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const store = tieredStore({ hot, cold, idle: never });
  await store.append(commitOf("s", 0, "a"));
  for (const id of await idsOf(hot)) if (id !== "s") await hot.delete(id);
  const lost = { code: "store_corrupt", message: expect.stringContaining('"s"') };
  await expect(store.read("s", 0)).rejects.toMatchObject(lost);
  await expect(idsOf(store)).rejects.toMatchObject(lost);
  expect(await store.delete("s")).toBe(true);
  expect(await idsOf(store)).toEqual([]);
  expect(await store.append(commitOf("s", 0, "b"))).toBe("ok");
});

test("the cost of locating a session does not grow with its number of moves", async () => {
  const hot = memoryStore();
  const store = tieredStore({ hot, cold: memoryStore(), idle });
  await store.append(commitOf("s", 0, "a"));
  for (let version = 1; version < 30; version++) {
    expect(await store.sweep()).toBe(1);
    expect(await store.append(commitOf("s", version, "b"))).toBe("ok");
  }
  expect((await hot.load("s"))!.entries.length).toBeLessThan(10);
});

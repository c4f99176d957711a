// The tiered store against other processes, failing stores and clocks: a rival acts at the worst moment.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openStore } from "../../src/stores/open.ts";
import type { Commit, Store } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { tieredStore } from "../../src/stores/tiered.ts";
import { bodiesOf, idsOf } from "./tiered-reading.ts";

const never = 1e12;
const minute = 60_000;
const heading = { environment: "shop", opened: 1 };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "performance"] }));
afterEach(() => void vi.useRealTimers());

function commitOf(session: string, version: number, body: string, more: Partial<Commit> = {}): Commit {
  const entries: Commit["entries"] = [{ body: JSON.stringify(body), at: version + 1 }];
  return { session, version, entries, ...(version === 0 && { heading }), ...more };
}

/** Runs an action once, before a selected append succeeds. */
function interrupted(inner: Store, isMoment: (commits: Commit[]) => boolean, rival: () => Promise<unknown>): Store {
  let done = false;
  return {
    ...inner,
    async append(...commits) {
      if (!done && isMoment(commits)) {
        done = true;
        await rival();
      }
      return inner.append(...commits);
    },
  };
}

test("a session that another process deleted and opened again is not overwritten", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const [one, other] = [tieredStore({ hot, cold, idle: never }), tieredStore({ hot, cold, idle: never })];
  await one.append(commitOf("s", 0, "old"));
  await other.delete("s");
  expect(await other.append(commitOf("s", 0, "new"))).toBe("ok");
  expect(await one.append(commitOf("s", 0, "over"))).toBe("conflict");
  expect(await bodiesOf(one, "s")).toEqual(["new"]);
  expect(await one.count("shop")).toBe(1);
});

test("a session that another process deletes, reopens and ends while it is brought back stays as that process left it", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const other = tieredStore({ hot, cold, idle: never });
  let isArmed = false;
  const rival = async (): Promise<void> => {
    await other.delete("s");
    await other.append(commitOf("s", 0, "new 1"));
    await other.append(commitOf("s", 1, "new 2", { heading: { ...heading, ended: "closed" } }));
  };
  const slow = interrupted(hot, (commits) => isArmed && commits.length === 2, rival);
  const one = tieredStore({ hot: slow, cold, idle: 0 });
  await one.append(commitOf("s", 0, "old 1"));
  await one.sweep();
  isArmed = true;
  expect(await one.append(commitOf("s", 1, "old 2"))).toBe("conflict");
  expect(await bodiesOf(other, "s")).toEqual(["new 1", "new 2"]);
  expect(await other.count("shop")).toBe(0);
});

test("a session from before the tiers that is deleted and reopened in the meantime takes nothing of the old one", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  await hot.append(commitOf("s", 0, "plain"));
  const other = tieredStore({ hot, cold, idle: never });
  const rival = async (): Promise<void> => {
    await other.delete("s");
    await other.append({ ...commitOf("s", 0, "new"), entries: [{ body: '"new"', at: 7 }] });
  };
  const one = tieredStore({ hot: interrupted(hot, () => true, rival), cold, idle: never });
  expect(await one.append(commitOf("s", 1, "old", { seen: "@1" }))).toBe("conflict");
  expect(await bodiesOf(other, "s")).toEqual(["new"]);
});

test("clocks that differ by an hour do not let a delete take the session that was opened after it", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const [one, other] = [tieredStore({ hot, cold, idle: never }), tieredStore({ hot, cold, idle: never })];
  await one.append(commitOf("s", 0, "old"));
  let isOpened: unknown;
  const slow: Store = {
    ...hot,
    async delete(id, end) {
      const now = Date.now();
      vi.setSystemTime(now + 60 * minute);
      isOpened ??= await other.append(commitOf("s", 0, "new"));
      vi.setSystemTime(now);
      return hot.delete(id, end);
    },
  };
  expect(await tieredStore({ hot: slow, cold, idle: never }).delete("s")).toBe(true);
  expect(isOpened).toBe("ok");
  expect(await bodiesOf(one, "s")).toEqual(["new"]);
});

test("the ticket of a deleted session goes after an hour, unless the session is reopened at that moment", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const other = tieredStore({ hot, cold, idle: never });
  let opened: unknown;
  let isOpening = false;
  const slow: Store = {
    ...hot,
    async delete(id, end) {
      if (id === "s" && isOpening) opened = await other.append(commitOf("s", 0, "new"));
      return hot.delete(id, end);
    },
  };
  const store = tieredStore({ hot: slow, cold, idle: 0 });
  await store.append(commitOf("s", 0, "old"));
  await store.delete("s");
  await store.sweep();
  expect(await idsOf(hot)).toEqual(["s"]);
  expect(await idsOf(store)).toEqual([]);
  vi.advanceTimersByTime(61 * minute);
  isOpening = true;
  await store.sweep();
  expect(opened).toBe("ok");
  expect(await bodiesOf(other, "s")).toEqual(["new"]);
  isOpening = false;
  await store.delete("s");
  vi.advanceTimersByTime(61 * minute);
  await store.sweep();
  expect(await idsOf(hot)).toEqual([]);
});

test("a session from before the tiers whose newest version has a snapshot is found", async () => {
  const hot = memoryStore();
  await hot.append(commitOf("s", 0, "a", { snapshot: { version: 1, body: "{}" } }));
  const store = tieredStore({ hot, cold: memoryStore(), idle: 0 });
  expect(await bodiesOf(store, "s")).toEqual(["a"]);
  expect(await idsOf(store)).toEqual(["s"]);
  expect(await store.append(commitOf("s", 0, "over"))).toBe("conflict");
  expect(await store.append(commitOf("s", 1, "b"))).toBe("ok");
  expect(await store.delete("s")).toBe(true);
});

test("an entry that only looks like a ticket is a session from before the tiers", async () => {
  const hot = memoryStore();
  await hot.append({ ...commitOf("s", 0, ""), entries: [{ body: '{"place":"hot","log":"s2"}', at: 1 }] });
  const store = tieredStore({ hot, cold: memoryStore(), idle: 0 });
  expect(await bodiesOf(store, "s")).toEqual([{ place: "hot", log: "s2" }]);
});

test("DURABLE: a cold store that cannot delete refuses nothing, and a later sweep removes the rest", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  let isDown = false;
  const failing: Store = {
    ...cold,
    delete: (...given) => (isDown ? Promise.reject(new Error("the cold store is down")) : cold.delete(...given)),
  };
  const store = tieredStore({ hot, cold: failing, idle: 0 });
  await store.append(commitOf("s", 0, "a"));
  expect(await store.sweep()).toBe(1);
  isDown = true;
  expect(await store.append(commitOf("s", 1, "b"))).toBe("ok");
  expect(await store.delete("s")).toBe(true);
  expect((await idsOf(cold)).length).toBe(1);
  isDown = false;
  await store.sweep();
  expect(await idsOf(cold)).toEqual([]);
});

test("DURABLE: a hot store that loses the commit that brought a session back does not lose the session", async () => {
  const [hot, lost, cold] = [memoryStore(), memoryStore(), memoryStore()];
  const store = tieredStore({ hot, cold, idle: 0 });
  await store.append(commitOf("s", 0, "a"));
  await store.sweep();
  for (const { version, body } of (await hot.read("s", 0))!)
    await lost.append({ session: "s", version: version - 1, entries: [{ body, at: 1 }], heading });
  expect(await store.append(commitOf("s", 1, "b"))).toBe("ok");
  expect(await bodiesOf(tieredStore({ hot: lost, cold, idle: never }), "s")).toEqual(["a"]);
  const [before] = await idsOf(cold);
  vi.advanceTimersByTime(9 * minute);
  await store.sweep();
  expect(await idsOf(cold)).toContain(before);
  vi.advanceTimersByTime(2 * minute);
  await store.sweep();
  expect(await idsOf(cold)).not.toContain(before);
  expect(await bodiesOf(store, "s")).toEqual(["a", "b"]);
});

test("unneeded copies go after a day, from both stores, and ticketed sessions stay", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  let isBusy = false;
  const busy: Store = {
    ...hot,
    append: (...commits) =>
      isBusy && commits.length > 1 ? Promise.reject(new Error("busy")) : hot.append(...(commits as [Commit])),
  };
  const first = tieredStore({ hot: busy, cold, idle: 0 });
  await first.append(commitOf("s", 0, "a"));
  await first.append(commitOf("t", 0, "a"));
  isBusy = true;
  await expect(first.sweep()).rejects.toThrow("busy");
  isBusy = false;
  await first.sweep();
  isBusy = true;
  await expect(first.append(commitOf("s", 1, "b"))).rejects.toThrow("busy");
  expect([(await idsOf(hot)).length, (await idsOf(cold)).length]).toEqual([3, 4]);
  // Another process without any knowledge of it.
  const store = tieredStore({ hot, cold, idle: 0 });
  for (let hours = 0; hours < 27; hours++) {
    await store.sweep();
    vi.advanceTimersByTime(61 * minute);
  }
  await store.sweep();
  expect([(await idsOf(hot)).length, (await idsOf(cold)).length]).toEqual([2, 2]);
  expect(await bodiesOf(store, "s")).toEqual(["a"]);
});

test("one session that cannot be moved does not stop the others, and the sweep reports it at its end", async () => {
  const [hot, cold] = [memoryStore(), memoryStore()];
  const picky: Store = {
    ...cold,
    append: (commit, ...more) =>
      commit.session.endsWith(":bad") ? Promise.reject(new Error("too large")) : cold.append(commit, ...more),
  };
  const store = tieredStore({ hot, cold: picky, idle: 0 });
  await store.append(commitOf("bad", 0, "a"));
  for (let n = 0; n < 50; n++) await store.append(commitOf(`s${n}`, 0, "a"));
  await expect(store.sweep()).rejects.toThrow("too large");
  expect((await idsOf(cold)).length).toBe(50);
});

test("a copy is made in commits of about a megabyte, and is complete", async () => {
  const cold = memoryStore();
  const sizes: number[] = [];
  const measured: Store = {
    ...cold,
    append(commit, ...more) {
      sizes.push(commit.entries.reduce((sum, { body }) => sum + body.length, 0));
      return cold.append(commit, ...more);
    },
  };
  const store = tieredStore({ hot: memoryStore(), cold: measured, idle: 0 });
  const bodies = Array.from({ length: 9 }, (_, at) => `${at}${"x".repeat(at === 4 ? 2_000_000 : 300_000)}`);
  for (const [at, body] of bodies.entries()) await store.append(commitOf("s", at, body));
  expect(await store.sweep()).toBe(1);
  // Four of 300 KB, the large one alone, and four of 300 KB.
  expect(sizes.map((size) => Math.round(size / 100_000))).toEqual([12, 20, 12]);
  expect(await bodiesOf(store, "s")).toEqual(bodies);
});

test("a commit does not wait for a running copy of its session", async () => {
  const cold = memoryStore();
  let copied!: () => void;
  let asked!: () => void;
  const isAsked = new Promise<void>((resolve) => (asked = resolve));
  const slow: Store = {
    ...cold,
    async append(...commits) {
      asked();
      await new Promise<void>((resolve) => (copied = resolve));
      return cold.append(...commits);
    },
  };
  const store = tieredStore({ hot: memoryStore(), cold: slow, idle: 0 });
  await store.append(commitOf("s", 0, "a"));
  const sweep = store.sweep();
  await isAsked;
  expect(await store.append(commitOf("s", 1, "b"))).toBe("ok");
  copied();
  expect(await sweep).toBe(0);
  expect(await bodiesOf(store, "s")).toEqual(["a", "b"]);
});

test("a Redis store that expires sessions is refused beside a cold store", async () => {
  const opening = openStore("redis://user:secret@127.0.0.1:1?prefix=a&expire=60", { cold: "memory:" });
  await expect(opening).rejects.toMatchObject({ code: "invalid_option", message: expect.stringContaining("expire") });
});

// The front on drivers made for it: what it does for the smallest one, and how it keeps the time and tries again.
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import type { Commit, Snapshot } from "../../src/core/store.ts";
import { createStore, type Driver, type Entry, type Fault, type Row, type Unit } from "../../src/stores/front.ts";
import { runStoreCases } from "./run-cases.ts";

interface Log {
  row: Row;
  entries: Entry[];
  snapshots: Snapshot[];
}

/** The least that a driver has to do: append, read, list and delete. */
function smallDriver(): Driver {
  const logs = new Map<string, Log>();
  let opened = 0;

  function judge(unit: Unit): "ok" | "conflict" | "duplicate" {
    const isRepeat = unit.some(({ session, entries }) =>
      entries.some(({ key }) => key !== undefined && logs.get(session)?.entries.some((entry) => entry.key === key)),
    );
    if (isRepeat) return "duplicate";
    const isStale = unit.some(({ session, seen }) => {
      const { version, mark } = logs.get(session)?.row ?? { version: 0, mark: "" };
      return version !== seen.version || (seen.mark !== "" && seen.mark !== mark);
    });
    return isStale ? "conflict" : "ok";
  }

  return {
    name: "the small store",
    persistent: false,
    together: true,
    text: "any",
    idle: false,
    append: (units) =>
      units.map((unit) => {
        const answer = judge(unit);
        for (const { session, entries, mark, heading, snapshot } of answer === "ok" ? unit : []) {
          const log = logs.get(session);
          const version = log?.entries.length ?? 0;
          const all = [
            ...(log?.entries ?? []),
            ...entries.map((entry, at) => ({ ...entry, version: version + at + 1 })),
          ];
          const place = log?.row.place ?? String(++opened).padStart(9, "0");
          const about = heading ?? log!.row;
          const row: Row = { ...about, session, place, mark, version: all.length, touched: all.at(-1)!.at };
          const snapshots = [...(log?.snapshots ?? []), ...(snapshot ? [snapshot] : [])];
          logs.set(session, { row, entries: all, snapshots });
        }
        return answer;
      }),
    read(session, { after, upTo, limit, bytes, snapshot: fromSnapshot }) {
      const log = logs.get(session);
      if (!log) return undefined;
      const fits = ({ version }: Snapshot): boolean => fromSnapshot && version > after && version <= upTo;
      const snapshot = log.snapshots.findLast(fits);
      const start = snapshot?.version ?? after;
      const entries: Entry[] = [];
      for (let left = bytes; left > 0 && start + entries.length < Math.min(log.row.version, upTo, start + limit);) {
        const entry = log.entries[start + entries.length]!;
        entries.push({ ...entry });
        left -= entry.body.length;
      }
      return { end: log.row, place: log.row.place, entries, ...(snapshot && { snapshot: { ...snapshot } }) };
    },
    list: ({ after = "", limit }) => {
      const rows = [...logs.values()].map(({ row }) => row).sort((a, b) => (a.place < b.place ? -1 : 1));
      const page = rows.filter(({ place }) => place > after).slice(0, limit);
      const newest = rows.at(-1)?.place ?? "";
      return page.length < limit ? { rows: page, newest } : { rows: page, newest, next: page.at(-1)!.place };
    },
    delete(session, end) {
      const row = logs.get(session)?.row;
      if (!row || (end && (end.version !== row.version || (end.mark !== "" && end.mark !== row.mark)))) return false;
      return logs.delete(session);
    },
  };
}

runStoreCases("the smallest driver", () => ({ open: () => createStore(smallDriver()) }), { persistent: false });

const commit = (session: string, version = 0): Commit => ({
  session,
  version,
  entries: [{ body: "1", at: 1 }],
  heading: { environment: "e", opened: 1 },
});

/** The smallest driver with some verbs replaced, whose failures are these faults. */
function failing(verbs: Partial<Driver>): Driver {
  return { ...smallDriver(), fault: (thrown) => thrown as Fault, ...verbs };
}

const fault = (given: Partial<Fault>): Fault => ({
  code: "store_busy",
  message: "is away",
  effect: "unknown",
  ...given,
});

describe("a failure", () => {
  test("without a meaning of its own is store_failed, with the name of the store", async () => {
    const { fault: _, ...driver } = failing({ read: () => Promise.reject(new Error("no such shelf")) });
    const message = "the small store failed: no such shelf";
    await expect(createStore(driver).read("a", 0)).rejects.toMatchObject({ code: "store_failed", message });
  });

  test("that passes is tried again: a read always, a commit only if nothing was changed", async () => {
    const small = smallDriver();
    let [reads, appends] = [0, 0];
    const flaky = (effect: Fault["effect"]): Driver =>
      failing({
        read: (...asked) => {
          if (++reads < 4) throw fault({ passing: true });
          return small.read(...asked);
        },
        append: async (...asked) => {
          if (++appends < 4) throw fault({ passing: true, effect });
          return small.append(...asked);
        },
      });
    const store = createStore(flaky("nothing"));
    expect(await store.append(commit("a"))).toBe("ok");
    expect(await store.read("a", 0)).toHaveLength(1);
    expect([reads, appends]).toEqual([4, 4]);
    appends = 0;
    const message = "the small store is away";
    await expect(createStore(flaky("unknown")).append(commit("b"))).rejects.toMatchObject({ message });
    expect(appends).toBe(1);
  });

  test("of one commit does not take along the others of its group", async () => {
    const small = smallDriver();
    const sizes: number[] = [];
    const store = createStore(
      failing({
        groups: { of: "store", commits: 100, bytes: 1000 },
        append(units, call) {
          sizes.push(units.length);
          if (units.some(([{ session }]) => session === "bad")) throw fault({ code: "store_failed", single: true });
          return small.append(units, call);
        },
      }),
    );
    const answers = await Promise.allSettled(["a", "bad", "c"].map((session) => store.append(commit(session))));
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(sizes).toEqual([3, 1, 1, 1]);
  });

  test("a log that says it is longer than what can be read of it is store_corrupt, and not asked for again and again", async () => {
    const read = vi.fn(() => ({ end: { version: 9, mark: "" }, place: "1", entries: [] }));
    await expect(createStore(failing({ read })).read("a", 0)).rejects.toMatchObject({ code: "store_corrupt" });
    expect(read.mock.calls.length).toBeLessThan(4);
  });
});

describe("the time limit of a verb", { tags: ["full"] }, () => {
  const never = (): Promise<never> => new Promise(() => undefined);

  test("is one for all tries, and ends what the driver never answers", async () => {
    const driver = failing({ append: never, read: never, delete: never, list: never });
    for (const groups of [undefined, { of: "store", commits: 9, bytes: 9 }, { of: "session", commits: 9 }] as const) {
      const store = createStore({ ...driver, ...(groups && { groups }) });
      const started = performance.now();
      const asked = [store.append(commit("a")), store.append(commit("a")), store.read("a", 0), store.delete("a")];
      for (const answer of await Promise.allSettled(asked)) {
        expect(answer).toMatchObject({ status: "rejected", reason: { code: "store_busy" } });
      }
      expect(performance.now() - started).toBeLessThan(6000);
    }
  }, 30_000);

  test("is one for a whole call: a commit has less time if its writer waited before", async () => {
    const store = createStore(failing({ append: never }));
    const since = performance.now();
    await expect(store.append({ ...commit("a"), waited: 4400 })).rejects.toMatchObject({ code: "store_busy" });
    expect(performance.now() - since).toBeLessThan(2000);
  });

  test("says why the driver waited, if it is known", async () => {
    const append: Driver["append"] = (_, call) => {
      call.reason = fault({ message: "has no connection free" });
      return never();
    };
    const store = createStore(failing({ append, groups: { of: "sessions", commits: 9, bytes: 9, lanes: 2 } }));
    await expect(store.append(commit("a"))).rejects.toMatchObject({
      message: "the small store has no connection free",
    });
  }, 30_000);
});

test("closing waits for running verbs and for groups, and then closes the driver once", async () => {
  const small = smallDriver();
  const close = vi.fn();
  const slow: Driver["append"] = async (units, call) => {
    await delay(20);
    return small.append(units, call);
  };
  const store = createStore({ ...small, append: slow, close, groups: { of: "store", commits: 1, bytes: 1 } });
  const answers = Promise.all(["a", "b", "c"].map((session) => store.append(commit(session))));
  await Promise.all([store.close(), store.close()]);
  expect(await answers).toEqual(["ok", "ok", "ok"]);
  expect(close).toHaveBeenCalledOnce();
});

test("commits of one moment keep the order of asking, whichever sessions they are of", async () => {
  const store = createStore({ ...smallDriver(), groups: { of: "unit" } });
  await store.append(commit("a"));
  const answers = [
    store.append(commit("b"), commit("a", 1)),
    store.append(commit("a", 2)),
    store.append(commit("b", 1)),
  ];
  expect(await Promise.all(answers)).toEqual(["ok", "ok", "ok"]);
});

test("a crowd of sessions of a driver that answers at once runs one after the other, and the event loop in between", async () => {
  const store = createStore({ ...smallDriver(), groups: { of: "unit" } });
  const order: string[] = [];
  const write = async (session: string): Promise<void> => {
    for (let version = 0; version < 10; version++) {
      await store.append(commit(session, version));
      for (let step = 0; step < 3; step++) {
        order.push(session);
        await Promise.resolve();
      }
    }
  };
  const crowd = ["a", ...Array.from({ length: 199 }, (_, at) => `s${at}`)];
  await Promise.all(crowd.map(write));
  const changes = order.filter((session, at) => session !== order[at - 1]).length;
  expect(changes, "changes of the session among 6,000 steps").toBeLessThanOrEqual(1500);

  const timers: number[] = [];
  const timer = setInterval(() => timers.push(performance.now()), 1);
  const until = performance.now() + 5000;
  for (let version = 10; timers.length < 3 && performance.now() < until; version++) {
    await store.append(commit("a", version));
  }
  clearInterval(timer);
  expect(timers, "timers that ran while one session committed all the time").toHaveLength(3);
});

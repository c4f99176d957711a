// Cases for listings while sessions are opened, touched, ended and deleted, as in sweeps and exports.
import assert from "node:assert/strict";
import { onStore, type StoreCase } from "./harness.ts";
import { collect, ids, noon, write } from "./logs.ts";
import type { Filter, Store } from "../../core/store.ts";

const later = Number.MAX_SAFE_INTEGER;

/** Writes more sessions than a store is likely to fetch in one query, so a listing needs several queries. */
async function many(store: Store, count = 600): Promise<string[]> {
  const names = Array.from({ length: count }, (_, index) => `s${index}`);
  for (const [index, session] of names.entries()) {
    await write(store, { session, version: 0, entries: [{ at: noon + index }], heading: { opened: noon + index } });
  }
  return names;
}

/** Lists sessions, calls `act` for each row, and fails if the listing seems endless. */
async function during(
  store: Store,
  filter: Filter,
  act: (session: string, place: number) => Promise<void>,
): Promise<string[]> {
  const seen: string[] = [];
  for await (const { session } of store.list(filter)) {
    seen.push(session);
    assert.ok(seen.length < 5000, `a listing with ${JSON.stringify(filter)} does not end`);
    await act(session, seen.length - 1);
  }
  assert.equal(new Set(seen).size, seen.length, "a session was listed twice");
  return seen;
}

export const listChangeCases: StoreCase[] = [
  onStore("a listing continues while other sessions are opened, touched and deleted", async (store) => {
    const names = await many(store);
    const gone = new Set(["s1", "s2", "s300", "s598", "s599"]);
    const seen = await during(store, {}, async (_, place) => {
      if (place !== 0) return;
      for (const session of gone) await store.delete(session);
      for (const session of ["s3", "s301", "s597"])
        await write(store, { session, version: 1, entries: [{ at: later }] });
      for (let index = 0; index < 20; index++) await write(store, { session: `new${index}`, version: 0 });
    });
    // The store decides whether deleted sessions still appear, and whether new sessions already appear.
    const stayed = (all: string[]) => all.filter((session) => !gone.has(session) && !session.startsWith("new"));
    assert.deepEqual(stayed(seen), stayed(names), "the sessions that existed all the time, in order");
  }),

  onStore("a listing continues when the session it just returned and its neighbours are deleted", async (store) => {
    const names = await many(store, 300);
    const seen = await during(store, { environment: "shop" }, async (session) => {
      await store.delete(session);
    });
    assert.deepEqual(seen, names, "each session deleted when it was listed");
    assert.deepEqual(await collect(store), [], "no session remains");
    await many(store, 9);
    const left = await during(store, {}, async (_, place) => {
      if (place === 3) for (const session of ["s1", "s2", "s3", "s0"]) await store.delete(session);
    });
    assert.deepEqual(left, ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"]);
  }),

  onStore("a listing ends even if each row opens a new session", async (store) => {
    const names = await many(store, 20);
    const seen = await during(store, {}, (session) => write(store, { session: `fork of ${session}`, version: 0 }));
    assert.deepEqual(seen.slice(0, 20), names);
  }),

  onStore("a listing returns each session once, in order, even if each row changes its session", async (store) => {
    const names = await many(store, 300);
    const seen = await during(store, { open: true }, (session) =>
      write(store, { session, version: 1, entries: [{ at: later }] }),
    );
    assert.deepEqual(seen, names);
  }),

  onStore("CLEANUP: a sweep that ends idle sessions while it lists them ends all of them", async (store) => {
    const names = await many(store);
    const filter = { environment: "shop", open: true, idleBefore: noon + 500 };
    const seen = await during(store, filter, (session) =>
      write(store, { session, version: 1, entries: [{ at: later }], heading: { ended: "idle" } }),
    );
    assert.deepEqual(seen, names.slice(0, 500));
    assert.equal(await store.count("shop"), 100, "the sessions that were not idle");
    assert.deepEqual(await ids(store, filter), [], "the next sweep finds nothing");
  }),

  onStore("CLEANUP: a capacity sweep ends and deletes the sessions that were idle longest", async (store) => {
    const names = await many(store, 300);
    const seen = await during(store, { environment: "shop", open: true, idleBefore: later }, async (session, place) => {
      if (place % 2 === 0) await store.delete(session);
      else
        await write(store, {
          session,
          version: 1,
          heading: { ended: "capacity" },
          entries: [{ at: noon + 1000 + place }],
        });
    });
    assert.deepEqual(seen, names);
    assert.equal(await store.count("shop"), 0);
  }),

  onStore("a listing by idle time continues while later sessions are touched and deleted", async (store) => {
    const names = await many(store);
    const moved = new Set(["s0", "s1", "s5", "s400", "s599"]);
    const seen = await during(store, { idleBefore: noon + 1000 }, async (_, place) => {
      if (place !== 0) return;
      await store.delete("s0");
      await store.delete("s1");
      await store.delete("s400");
      for (const session of ["s5", "s599"]) await write(store, { session, version: 1, entries: [{ at: later }] });
    });
    const stayed = (all: string[]) => all.filter((session) => !moved.has(session));
    assert.deepEqual(stayed(seen), stayed(names), "the sessions that stayed idle, longest idle first");
  }),

  onStore("a listing can stop early, and several can run concurrently", async (store) => {
    const names = await many(store, 60);
    for await (const { session } of store.list()) {
      assert.equal(session, "s0");
      break;
    }
    for await (const { session } of store.list({ idleBefore: later })) {
      assert.equal(session, "s0");
      break;
    }
    const lists = await Promise.all([ids(store), ids(store, { idleBefore: later }), ids(store, { after: "s29" })]);
    assert.deepEqual(lists, [names, names, names.slice(30)]);
  }),
];

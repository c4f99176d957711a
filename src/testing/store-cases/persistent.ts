// Cases for persistent stores: data written by one handle is found by another handle, later and concurrently.
import assert from "node:assert/strict";
import type { Store } from "../../core/store.ts";
import { onStorage, type StoreCase } from "./harness.ts";
import {
  append,
  bare,
  bodiesUpTo,
  collect,
  expectAnswer,
  expectLog,
  findRow,
  grow,
  ids,
  noon,
  numbered,
  tidy,
  write,
} from "./logs.ts";
import { expectBodies, insist, tally } from "./races.ts";

/** Reads all data of the sessions with every operation of the store. */
async function portrait(store: Store): Promise<unknown> {
  const sessions = [];
  for (const session of ["a", "b", "c", "gone"]) {
    const loads = await Promise.all([0, 1, 2, 3, undefined].map((version) => store.load(session, version)));
    const found = await Promise.all(["k", "l", "no"].map((key) => store.find(session, key)));
    sessions.push({ session, entries: await store.read(session, 0), loads, found });
  }
  return {
    sessions,
    rows: (await collect(store)).map(tidy),
    idle: await ids(store, { idleBefore: noon + 999 }),
    open: await ids(store, { open: true }),
    counts: await Promise.all(["shop", "chess", "none"].map((environment) => store.count(environment))),
  };
}

async function fill(store: Store): Promise<void> {
  await write(store, { session: "c", version: 0, entries: [{ key: "k", at: noon + 3 }], snapshot: '"c1"' });
  await write(store, { session: "gone", version: 0, snapshot: '"gone"', entries: [{ key: "k" }] });
  const parent = { session: "c", version: 1 };
  await write(store, { session: "a", version: 0, heading: { environment: "chess", opened: noon + 1, parent } });
  await write(store, {
    session: "a",
    version: 1,
    entries: [{ key: "l", at: noon + 9 }, { at: noon + 9 }],
    snapshot: '"a3"',
  });
  await write(store, { session: "b", version: 0, entries: [{ at: noon + 5 }] });
  await write(store, { session: "b", version: 1, entries: [{ at: noon + 6 }], heading: { ended: "closed" } });
  await store.delete("gone");
}

export const persistentCases: StoreCase[] = [
  onStorage("DURABLE: a store that is opened again has all commits", async (open) => {
    const first = await open();
    await fill(first);
    const before = await portrait(first);
    await first.close();
    const second = await open();
    assert.deepEqual(await portrait(second), before, "opened again");
    await second.close();
    assert.deepEqual(await portrait(await open()), before, "opened a third time");
  }),

  onStorage(
    "DURABLE: another handle sees an answered commit, even if the first handle was never closed",
    async (open) => {
      const first = await open();
      await fill(first);
      assert.deepEqual(await portrait(await open()), await portrait(first));
    },
  ),

  onStorage("ONCE: keys and versions are still checked after the store is opened again", async (open) => {
    const first = await open();
    await fill(first);
    await first.close();
    const store = await open();
    await expectAnswer(store, { session: "a", version: 3, entries: [{ key: "l" }] }, "duplicate", "a known key");
    await expectAnswer(store, { session: "a", version: 2 }, "conflict", "a stale version");
    await expectAnswer(store, { session: "a", version: 0 }, "conflict", "opening an existing store");
    await expectAnswer(store, { session: "gone", version: 1 }, "conflict", "a session that was deleted");
    await write(store, { session: "a", version: 3, entries: [{ key: "k" }] });
    await expectLog(store, "a", bodiesUpTo(4));
  }),

  onStorage("sessions opened after the store is opened again are listed last", async (open) => {
    const first = await open();
    await fill(first);
    await grow(first, "z", 1);
    await first.delete("z");
    await first.close();
    const store = await open();
    await write(store, { session: "0", version: 0, entries: [{ at: noon + 7 }], heading: { opened: noon + 50 } });
    assert.deepEqual(await ids(store), ["c", "a", "b", "0"], "the order of opening");
    assert.deepEqual(await ids(store, { after: "a" }), ["b", "0"], "a cursor from before");
    assert.deepEqual(await ids(store, { idleBefore: noon + 999 }), ["c", "b", "0", "a"], "the idle order");
  }),

  onStorage("DURABLE: closing one handle leaves the other open", async (open) => {
    const [first, second] = [await open(), await open()];
    await grow(first, "a", 1);
    await first.close();
    await write(second, { session: "a", version: 1 });
    await expectLog(second, "a", bodiesUpTo(2));
    await assert.rejects(first.read("a", 0), { code: "store_closed" }, "the closed handle");
  }),

  onStorage("SERIAL: a handle immediately sees the commits of another handle", async (open) => {
    const [first, second] = [await open(), await open()];
    for (let version = 0; version < 20; version += 2) {
      await write(first, { session: "a", version, snapshot: `"at ${version + 1}"` });
      assert.deepEqual(
        bare(await second.read("a", version)),
        numbered([`{"n":${version + 1}}`], version),
        "read by the second",
      );
      await expectAnswer(second, { session: "a", version }, "conflict", "the second handle, on an older version");
      await write(second, {
        session: "a",
        version: version + 1,
        entries: [{ key: `k${version}`, at: noon + version + 1 }],
      });
      assert.equal((await first.find("a", `k${version}`))?.version, version + 2, "found by the first");
      const again = { session: "a", version: version + 2, entries: [{ key: `k${version}` }] };
      await expectAnswer(first, again, "duplicate", "the first handle, with the second handle's key");
      assert.deepEqual((await second.load("a"))?.snapshot, { version: version + 1, body: `"at ${version + 1}"` });
      assert.deepEqual(await findRow(first, "a"), await findRow(second, "a"), "both list the same");
    }
  }),

  onStorage("CLEANUP: a handle immediately sees the sessions that another handle ended or deleted", async (open) => {
    const [first, second] = [await open(), await open()];
    for (const session of ["a", "b", "c"]) await grow(first, session, 2);
    await expectLog(second, "a", bodiesUpTo(2));
    await write(second, { session: "b", version: 2, heading: { ended: "idle" } });
    assert.equal(await first.count("shop"), 2, "the count after one ended");
    assert.deepEqual(await ids(first, { open: true }), ["a", "c"]);
    assert.equal(await second.delete("a"), true);
    await expectLog(first, "a", undefined, "after the other handle deleted it");
    await expectAnswer(first, { session: "a", version: 2 }, "conflict", "a commit on it");
    assert.equal(await first.delete("a"), false, "deleting it again");
    assert.equal(await first.count("shop"), 1, "the count after one was deleted");
    await write(first, { session: "a", version: 0, entries: ['"new"'] });
    await expectLog(second, "a", ['"new"'], "opened again by the other handle");
    assert.deepEqual(await ids(second), ["b", "c", "a"]);
  }),

  onStorage("SERIAL: of 64 commits on the same version through two handles exactly one is accepted", async (open) => {
    const handles = [await open(), await open()] as const;
    for (let round = 0; round < 10; round++) {
      const session = `s${round}`;
      const opened = await Promise.all(handles.map((store) => append(store, { session, version: 0 })));
      assert.deepEqual(tally(opened), { ok: 1, conflict: 1, duplicate: 0 }, "opening");
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, index) =>
          append(handles[index % 2 === 0 ? 0 : 1], { session, version: 1, entries: [`"${index}"`] }),
        ),
      );
      assert.deepEqual(tally(answers), { ok: 1, conflict: 63, duplicate: 0 }, "committing");
      for (const store of handles) await expectLog(store, session, ['{"n":1}', `"${answers.indexOf("ok")}"`]);
    }
  }),

  onStorage("ONCE: of two commits with the same key through two handles exactly one is accepted", async (open) => {
    const handles = [await open(), await open()];
    await grow(handles[0]!, "a", 1);
    for (let version = 1; version < 20; version++) {
      const entries = [{ key: `k${version}` }];
      const answers = await Promise.all(handles.map((store) => append(store, { session: "a", version, entries })));
      assert.deepEqual(tally(answers), { ok: 1, conflict: 0, duplicate: 1 }, `key k${version}`);
    }
    await expectLog(handles[1]!, "a", bodiesUpTo(20));
  }),

  onStorage("SERIAL: concurrent writers on two handles all succeed if they retry conflicts", async (open) => {
    const handles = [await open(), await open()] as const;
    await grow(handles[0], "a", 1);
    const bodies = Array.from({ length: 60 }, (_, index) => `"${index}"`);
    await Promise.all(bodies.map((body, index) => insist(handles[index % 2 === 0 ? 0 : 1], "a", body)));
    for (const store of handles) await expectBodies(store, bodies);
  }),

  onStorage("ISOLATION: two handles can write different sessions concurrently without conflicts", async (open) => {
    const handles = [await open(), await open()];
    await Promise.all(
      handles.flatMap((store, handle) =>
        Array.from({ length: 20 }, (_, index) => grow(store, `h${handle} s${index}`, 20)),
      ),
    );
    for (const store of handles) {
      assert.equal(await store.count("shop"), 40);
      for (const session of await ids(store)) await expectLog(store, session, bodiesUpTo(20));
    }
  }),
];

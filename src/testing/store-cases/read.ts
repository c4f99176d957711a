// Cases for read and load: the newest entries, the data to rebuild a version, and snapshots.
import assert from "node:assert/strict";
import type { Entry, Snapshot, Store } from "../../core/store.ts";
import { onStore, type StoreCase } from "./harness.ts";
import { bare, bodiesUpTo, expectLog, grow, noon, numbered, write } from "./logs.ts";

/** Checks a version of the log written by `withSnapshots`. */
async function expectLoaded(store: Store, asked: number | undefined, snapshot: number, end: number): Promise<void> {
  const loaded = await store.load("a", asked);
  assert.ok(loaded, `loading version ${asked} returned nothing`);
  const expected: Snapshot | undefined =
    snapshot === 0 ? undefined : { version: snapshot, body: `"state ${snapshot}"` };
  assert.deepEqual(loaded.snapshot, expected, `the snapshot for version ${asked}`);
  const entries = numbered(bodiesUpTo(end, snapshot), snapshot);
  assert.deepEqual(bare(loaded.entries), entries, `the entries for version ${asked}`);
}

/** Writes 12 entries. Snapshots at 3 (after a single entry), 5 and 10 (after several entries of one commit). */
async function withSnapshots(store: Store): Promise<void> {
  await write(store, { session: "a", version: 0 });
  await write(store, { session: "a", version: 1 });
  await write(store, { session: "a", version: 2, snapshot: '"state 3"' });
  await write(store, { session: "a", version: 3, entries: [{}, {}], snapshot: '"state 5"' });
  await write(store, { session: "a", version: 5 });
  await write(store, { session: "a", version: 6, entries: [{}, {}, {}, {}], snapshot: '"state 10"' });
  await write(store, { session: "a", version: 10, entries: [{}, {}] });
}

export const readCases: StoreCase[] = [
  onStore("entries keep their time and key", async (store) => {
    const [odd, half] = ['k "1"\n=\u{1f600}', noon + 0.5];
    await write(store, { session: "a", version: 0, entries: [{ key: odd }, {}], snapshot: "2" });
    await write(store, { session: "a", version: 2, entries: [{ key: "", at: half + 9 }] });
    const expected: Entry[] = [
      { version: 1, body: '{"n":1}', at: noon, key: odd },
      { version: 2, body: '{"n":2}', at: noon + 1 },
      { version: 3, body: '{"n":3}', at: half + 9, key: "" },
    ];
    assert.deepEqual(await store.read("a", 0), expected, "read");
    assert.deepEqual((await store.load("a"))?.entries, expected.slice(2), "loaded after a snapshot");
    assert.deepEqual((await store.load("a", 1))?.entries, expected.slice(0, 1), "loaded from the start");
    assert.deepEqual(await store.find("a", odd), expected[0], "found by a key");
    assert.deepEqual(await store.find("a", ""), expected[2], "found by the empty key");
  }),

  onStore("load after a version returns the later entries, and the log's version and mark", async (store) => {
    await withSnapshots(store);
    const { version, mark } = (await store.load("a"))!;
    assert.equal(version, 12);
    for (const after of [1, 5, 11, 12]) {
      const loaded = (await store.load("a", undefined, after))!;
      assert.deepEqual([loaded.version, loaded.mark], [version, mark], `the version and mark, loaded after ${after}`);
      assert.deepEqual(bare(loaded.entries), numbered(bodiesUpTo(12, after), after), `after ${after}`);
    }
    const beyond = (await store.load("a", undefined, 20))!;
    assert.deepEqual(beyond.entries, [], "after a version that does not exist");
    assert.ok(beyond.version < 20, "the end of a shorter log");
    assert.equal(await store.load("none", undefined, 3), undefined, "of a missing log");
  }),

  onStore("GROWTH: a page with a byte limit ends at about that size, and has at least one entry", async (store) => {
    const large = JSON.stringify("x".repeat(100_000));
    await write(store, { session: "a", version: 0, entries: [large, large, large, large, large, "6", "7"] });
    assert.equal((await store.read("a", 0, 10, 1))?.length, 1, "the page with a byte limit below one entry");
    assert.equal(
      (await store.read("a", 0, 10, 250_000))?.length,
      3,
      "the page with a byte limit of two and a half entries",
    );
    assert.equal((await store.read("a", 0, 2, 250_000))?.length, 2, "limited by the number of entries");
    assert.equal((await store.read("a", 4, 10, 250_000))?.length, 3, "all later entries");
  }),

  onStore("reading or loading a missing session returns undefined", async (store) => {
    assert.equal(await store.read("none", 0), undefined, "read");
    assert.equal(await store.read("none", 5, 10), undefined, "read after a version, with a limit");
    assert.equal(await store.load("none"), undefined, "load");
    assert.equal(await store.load("none", 0), undefined, "load version 0");
    assert.equal(await store.load("none", 3), undefined, "load version 3");
    await grow(store, "a", 1);
    assert.equal(await store.read("none", 0), undefined, "read, in a store that is not empty");
  }),

  onStore("read returns the entries after a version, in order", async (store) => {
    await grow(store, "a", 12);
    for (let after = 0; after < 12; after++) {
      assert.deepEqual(bare(await store.read("a", after)), numbered(bodiesUpTo(12, after), after), `after ${after}`);
    }
  }),

  onStore("read after the end of a log returns no entries, not undefined", async (store) => {
    await grow(store, "a", 3);
    assert.deepEqual(bare(await store.read("a", 3)), [], "after the newest");
    assert.deepEqual(bare(await store.read("a", 4)), [], "after a version that does not exist yet");
    assert.deepEqual(bare(await store.read("a", 1_000_000, 5)), [], "far beyond the end");
  }),

  onStore("read returns at most as many entries as its limit", async (store) => {
    await grow(store, "a", 10);
    assert.deepEqual(bare(await store.read("a", 0, 1)), numbered(['{"n":1}']), "one");
    assert.deepEqual(bare(await store.read("a", 4, 3)), numbered(bodiesUpTo(7, 4), 4), "three from the middle");
    assert.deepEqual(bare(await store.read("a", 8, 50)), numbered(bodiesUpTo(10, 8), 8), "more than there are");
    assert.deepEqual(bare(await store.read("a", 0, 10)), numbered(bodiesUpTo(10)), "as many as there are");
    assert.deepEqual(bare(await store.read("a", 0, 0)), [], "none");
  }),

  onStore("a log read page by page is complete", async (store) => {
    await grow(store, "a", 25);
    const entries: Entry[] = [];
    for (;;) {
      const page: Entry[] | undefined = await store.read("a", entries.length, 7);
      assert.ok(page, `the page after ${entries.length}`);
      if (page.length === 0) break;
      entries.push(...page);
    }
    assert.deepEqual(bare(entries), numbered(bodiesUpTo(25)));
  }),

  onStore("load returns all entries up to the version if there are no snapshots", async (store) => {
    await grow(store, "a", 6);
    await expectLoaded(store, undefined, 0, 6);
    for (let version = 1; version <= 6; version++) await expectLoaded(store, version, 0, version);
  }),

  onStore("load starts at the newest snapshot that is not later than the version", async (store) => {
    await withSnapshots(store);
    await expectLoaded(store, undefined, 10, 12);
    const snapshotFor = [0, 0, 0, 3, 3, 5, 5, 5, 5, 5, 10, 10, 10];
    for (const [version, snapshot] of snapshotFor.entries()) await expectLoaded(store, version, snapshot, version);
  }),

  onStore("load of version 0 returns no snapshot and no entries", async (store) => {
    await write(store, { session: "a", version: 0, snapshot: '"state 1"' });
    await expectLoaded(store, 0, 0, 0);
    await expectLoaded(store, 1, 1, 1);
  }),

  onStore("load of a version that does not exist yet returns the newest version", async (store) => {
    await withSnapshots(store);
    await expectLoaded(store, 13, 10, 12);
    await expectLoaded(store, 1_000_000, 10, 12);
  }),

  onStore("a snapshot hides no entry from read", async (store) => {
    await withSnapshots(store);
    await expectLog(store, "a", bodiesUpTo(12));
    assert.deepEqual(bare(await store.read("a", 1, 3)), numbered(bodiesUpTo(4, 1), 1));
  }),

  onStore("GROWTH: load picks the correct one of many snapshots for every version", async (store) => {
    for (let version = 0; version < 90; version++) {
      const due = (version + 1) % 3 === 0;
      await write(store, { session: "a", version, ...(due && { snapshot: `"state ${version + 1}"` }) });
    }
    await expectLoaded(store, undefined, 90, 90);
    for (let version = 0; version <= 90; version++)
      await expectLoaded(store, version, version - (version % 3), version);
  }),

  onStore("ISOLATION: a session loads only its own snapshots", async (store) => {
    await write(store, { session: "a", version: 0, snapshot: '"state 1"' });
    await write(store, { session: "b", version: 0, entries: ['"b1"', '"b2"'] });
    await write(store, { session: "c", version: 0, entries: ['"c1"', '"c2"'], snapshot: '"c"' });
    const loaded = await store.load("b");
    assert.equal(loaded?.snapshot, undefined, "b has no snapshot");
    assert.deepEqual(bare(loaded?.entries), numbered(['"b1"', '"b2"']));
    await expectLoaded(store, undefined, 1, 1);
  }),

  onStore("ISOLATION: changes to a returned object do not affect the store", async (store) => {
    await write(store, {
      session: "a",
      version: 0,
      entries: [{ body: '{"n":1}', key: "k" }, {}],
      snapshot: '"state 2"',
    });
    const spoil = (entries: Entry[] = []): void => {
      for (const entry of entries) Object.assign(entry, { version: 99, body: '"spoiled"' });
      entries.length = 0;
    };
    const found = await store.find("a", "k");
    spoil([found!]);
    spoil(await store.read("a", 0));
    spoil((await store.load("a", 1))?.entries);
    const loaded = await store.load("a");
    Object.assign(loaded!.snapshot!, { version: 1, body: '"spoiled"' });
    assert.deepEqual(bare(await store.find("a", "k")), { version: 1, body: '{"n":1}' });
    await expectLog(store, "a", bodiesUpTo(2));
    await expectLoaded(store, undefined, 2, 2);
  }),
];

// Cases for keys: a key belongs to at most one entry in a log. This makes a retried call harmless.
import assert from "node:assert/strict";
import { onStore, type StoreCase } from "./harness.ts";
import { append, bare, expectAnswer, expectLog, findRow, grow, noon, write } from "./logs.ts";

export const keyCases: StoreCase[] = [
  onStore("ONCE: an entry is found by its key", async (store) => {
    await write(store, { session: "a", version: 0, entries: ['"1"', { body: '"2"', key: "k" }, '"3"'] });
    await write(store, { session: "a", version: 3, entries: [{ body: '"4"', key: "l" }] });
    assert.deepEqual(bare(await store.find("a", "k")), { version: 2, body: '"2"' });
    assert.deepEqual(bare(await store.find("a", "l")), { version: 4, body: '"4"' });
  }),

  onStore("finding an unknown key, or a key in a missing log, returns undefined", async (store) => {
    assert.equal(await store.find("a", "k"), undefined, "in a missing log");
    await grow(store, "a", 2);
    assert.equal(await store.find("a", "k"), undefined, "in a log without keys");
    await write(store, { session: "a", version: 2, entries: [{ key: "k" }] });
    assert.equal(await store.find("a", "K"), undefined, "the same key in a different case");
    assert.equal(await store.find("a", "k "), undefined, "the same key with a space");
    assert.equal(await store.find("b", "k"), undefined, "the key of another log");
    assert.equal(await store.find("a", "undefined"), undefined, "the empty key");
  }),

  onStore("ONCE: a commit with a key that is already in the log is a duplicate and stores nothing", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ body: '"1"', key: "k" }] });
    const before = await findRow(store, "a");
    const answer = await append(store, {
      session: "a",
      version: 1,
      entries: [
        { body: '"2"', key: "new" },
        { body: '"3"', key: "k", at: noon + 99 },
      ],
      heading: { ended: "closed" },
      snapshot: '"no"',
    });
    assert.equal(answer, "duplicate");
    await expectLog(store, "a", ['"1"'], "after a duplicate");
    assert.deepEqual(await findRow(store, "a"), before, "a duplicate changed the heading, the version or the time");
    assert.equal(await store.find("a", "new"), undefined, "another key of the refused commit was stored");
    assert.deepEqual(bare(await store.find("a", "k")), { version: 1, body: '"1"' }, "the entry that has the key");
    assert.equal((await store.load("a"))?.snapshot, undefined, "the snapshot of the refused commit was stored");
    await write(store, { session: "a", version: 1, entries: [{ key: "new" }] });
  }),

  onStore("ONCE: a commit with the same key twice is a duplicate, and nothing is stored", async (store) => {
    const entries = [{ body: '"1"', key: "k" }, '"2"', { body: '"3"', key: "k" }];
    await expectAnswer(store, { session: "a", version: 0, entries }, "duplicate", "in a commit that opens a log");
    await expectLog(store, "a", undefined, "after a duplicate");
    assert.equal(await store.count("shop"), 0, "the count of open sessions");
    await grow(store, "a", 1);
    await expectAnswer(store, { session: "a", version: 1, entries }, "duplicate", "in a later commit");
    await expectLog(store, "a", ['{"n":1}'], "after a duplicate");
    assert.equal(await store.find("a", "k"), undefined, "the key was stored");
    await write(store, { session: "a", version: 1, entries: [{ key: "k" }] });
  }),

  onStore("ONCE: a stale commit with a known key is a duplicate, not a conflict", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ key: "k" }] });
    await write(store, { session: "a", version: 1 });
    // A retry often finds that its first attempt was stored. It must get "duplicate", so that it stops retrying.
    for (const version of [0, 1, 5]) {
      await expectAnswer(store, { session: "a", version, entries: [{ key: "k" }] }, "duplicate", `on ${version}`);
    }
    const twice = [{ key: "x" }, { key: "x" }];
    await expectAnswer(store, { session: "a", version: 0, entries: twice }, "duplicate", "within a stale commit");
    await expectAnswer(store, { session: "none", version: 5, entries: twice }, "duplicate", "without a log");
    await expectLog(store, "a", ['{"n":1}', '{"n":2}']);
  }),

  onStore("ONCE: a key stays taken, however long the log grows", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ key: "first" }] });
    for (let version = 1; version < 100; version++) {
      await write(store, { session: "a", version, entries: [{ key: `k${version}` }], snapshot: `"at ${version + 1}"` });
    }
    for (const key of ["first", "k1", "k50", "k99"]) {
      await expectAnswer(store, { session: "a", version: 100, entries: [{ key }] }, "duplicate", `key ${key}`);
    }
    assert.deepEqual(bare(await store.find("a", "first")), { version: 1, body: '{"n":1}' });
    assert.deepEqual(bare(await store.find("a", "k98")), { version: 99, body: '{"n":99}' });
  }),

  onStore("ISOLATION: logs share no keys", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ body: '"a"', key: "k" }] });
    await write(store, { session: "b", version: 0, entries: ['"0"', { body: '"b"', key: "k" }] });
    assert.deepEqual(bare(await store.find("a", "k")), { version: 1, body: '"a"' });
    assert.deepEqual(bare(await store.find("b", "k")), { version: 2, body: '"b"' });
    // Session and key names that collide if a store joins them: "x" + "yz" and "xy" + "z".
    await write(store, { session: "x", version: 0, entries: [{ key: "yz" }] });
    await write(store, { session: "xy", version: 0, entries: [{ key: "z" }] });
    assert.equal(await store.find("xy", "yz"), undefined);
    assert.equal(await store.find("x", "z"), undefined);
  }),

  onStore("entries without a key are never duplicates, and the empty string is a normal key", async (store) => {
    await write(store, { session: "a", version: 0, entries: ['"same"', '"same"', { key: undefined }] });
    assert.equal(await store.find("a", ""), undefined, "an entry without a key does not have the empty key");
    await write(store, { session: "a", version: 3, entries: [{ body: '"empty"', key: "" }] });
    assert.deepEqual(bare(await store.find("a", "")), { version: 4, body: '"empty"' });
    await expectAnswer(store, { session: "a", version: 4, entries: [{ key: "" }] }, "duplicate");
  }),
];

// Cases for append: accepted commits, and refused commits, which leave no trace.
import assert from "node:assert/strict";
import { onStore, type StoreCase } from "./harness.ts";
import {
  append,
  bare,
  bodiesUpTo,
  buildCommit,
  expectAnswer,
  expectLog,
  findRow,
  grow,
  markOf,
  noon,
  numbered,
  write,
} from "./logs.ts";

export const appendCases: StoreCase[] = [
  onStore("a commit on version 0 opens a log", async (store) => {
    await expectAnswer(store, { session: "a", version: 0, entries: ['{"first":true}'] }, "ok");
    await expectLog(store, "a", ['{"first":true}']);
  }),

  onStore("a store says whether it is persistent", async (store) => {
    assert.equal(typeof store.persistent, "boolean");
  }),

  onStore("SERIAL: a log is opened once; a second commit on version 0 is a conflict", async (store) => {
    await write(store, { session: "a", version: 0, entries: ['"mine"'] });
    const answer = await append(store, {
      session: "a",
      version: 0,
      entries: ['"yours"'],
      heading: { environment: "x" },
    });
    assert.equal(answer, "conflict");
    await expectLog(store, "a", ['"mine"'], "after a second opening");
    assert.equal((await findRow(store, "a"))?.environment, "shop", "the refused heading was stored");
  }),

  onStore("SERIAL: a commit based on another log with the same id and length is a conflict", async (store) => {
    await write(store, { session: "a", version: 0 });
    const first = await markOf(store, "a");
    await write(store, { session: "a", version: 1, seen: first, entries: [{ at: noon + 5 }] });
    await expectAnswer(store, { session: "a", version: 2, seen: first }, "conflict", "a commit based on another log");
    const second = await markOf(store, "a");
    await write(store, { session: "a", version: 2, seen: second, entries: [{ at: noon + 6 }, { at: noon + 7 }] });
    const deleted = await markOf(store, "a");
    await store.delete("a");
    await write(store, {
      session: "a",
      version: 0,
      entries: [{ at: noon + 9 }, { at: noon + 9 }, {}, { at: noon + 9 }],
    });
    const late = buildCommit({ session: "a", version: 4, seen: deleted });
    assert.equal(await store.append(late), "conflict", "a commit based on the deleted log");
    const beside = buildCommit({ session: "b", version: 0 });
    assert.equal(await store.append(late, beside), "conflict", "the same commit together with a second one");
    assert.equal(await store.read("b", 0), undefined, "part of the refused commits was stored");
    await write(store, { session: "a", version: 4, seen: await markOf(store, "a") });
  }),

  onStore("each commit extends the version that the previous commit created", async (store) => {
    await grow(store, "a", 20);
    await expectLog(store, "a", bodiesUpTo(20));
  }),

  onStore("the entries of a commit have consecutive numbers", async (store) => {
    await write(store, { session: "a", version: 0, entries: ['"1"', '"2"', '"3"'] });
    await write(store, { session: "a", version: 3, entries: ['"4"'] });
    await write(store, { session: "a", version: 4, entries: ['"5"', '"6"'] });
    await expectLog(store, "a", ['"1"', '"2"', '"3"', '"4"', '"5"', '"6"']);
    await expectAnswer(store, { session: "a", version: 5 }, "conflict", "a version inside a commit");
    await expectAnswer(store, { session: "a", version: 3 }, "conflict", "the end of an older commit");
  }),

  onStore("ATOMIC: a commit with a stale version stores nothing", async (store) => {
    await write(store, { session: "a", version: 0, snapshot: '"at 1"' });
    await grow(store, "b", 1);
    await write(store, { session: "a", version: 1 });
    const before = await findRow(store, "a");
    for (const version of [0, 1]) {
      const answer = await append(store, {
        session: "a",
        version,
        entries: [{ body: '"stale"', at: noon + 999, key: "stale" }, '"stale too"'],
        heading: { environment: "elsewhere", opened: 1, ended: "closed" },
        snapshot: '"stale"',
      });
      assert.equal(answer, "conflict", `a commit on version ${version} of a log at version 2`);
    }
    await expectLog(store, "a", bodiesUpTo(2));
    assert.deepEqual(
      await findRow(store, "a"),
      before,
      "a refused commit changed the heading, the version or the time",
    );
    assert.equal(await store.find("a", "stale"), undefined, "the key of a refused commit was stored");
    assert.deepEqual((await store.load("a"))?.snapshot, { version: 1, body: '"at 1"' }, "the snapshot");
    assert.equal(await store.count("shop"), 2, "the count of open sessions");
    assert.equal(await store.count("elsewhere"), 0, "the count of the refused heading's environment");
  }),

  onStore("ATOMIC: a commit on a version that does not exist yet stores nothing", async (store) => {
    await grow(store, "a", 3);
    for (const version of [4, 5, 1_000_000]) {
      await expectAnswer(store, { session: "a", version }, "conflict", `on version ${version} of 3`);
    }
    await expectLog(store, "a", bodiesUpTo(3));
  }),

  onStore("ATOMIC: a commit on a log that does not exist stores nothing", async (store) => {
    for (const version of [1, 7]) {
      const given = { session: "a", version, heading: { environment: "shop" }, snapshot: '"no"' };
      await expectAnswer(store, given, "conflict", `a commit on version ${version} of a log that does not exist`);
    }
    await expectLog(store, "a", undefined);
    assert.equal(await store.count("shop"), 0, "the count of open sessions");
  }),

  onStore("a refused writer can read the missed entries and commit after them", async (store) => {
    await grow(store, "a", 2);
    await write(store, { session: "a", version: 2, entries: ['"theirs"'] });
    await expectAnswer(store, { session: "a", version: 2, entries: ['"ours"'] }, "conflict");
    assert.deepEqual(bare(await store.read("a", 2)), numbered(['"theirs"'], 2), "the missed entries");
    await write(store, { session: "a", version: 3, entries: ['"ours"'] });
    await expectLog(store, "a", [...bodiesUpTo(2), '"theirs"', '"ours"']);
  }),

  onStore("ISOLATION: a commit changes no other session", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ body: '"a1"', key: "k" }], snapshot: '"a"' });
    const before = await findRow(store, "a");
    await write(store, { session: "b", version: 0, entries: ['"b1"', '"b2"'], heading: { environment: "other" } });
    await write(store, { session: "b", version: 2, snapshot: '"b"', heading: { environment: "other", ended: "idle" } });
    await expectLog(store, "a", ['"a1"']);
    assert.deepEqual(await findRow(store, "a"), before, "the row of the other session");
    assert.deepEqual(bare(await store.find("a", "k")), { version: 1, body: '"a1"' }, "its key");
    const { snapshot, entries } = (await store.load("a"))!;
    assert.deepEqual({ snapshot, entries }, { snapshot: { version: 1, body: '"a"' }, entries: [] }, "its snapshot");
    await expectAnswer(store, { session: "a", version: 3 }, "conflict", "the version of the session's own log");
    await write(store, { session: "a", version: 1 });
  }),

  onStore("ISOLATION: changes to a commit object after the call do not affect the store", async (store) => {
    const parent = { session: "p", version: 3 };
    const commit = buildCommit({
      session: "a",
      version: 0,
      entries: [{ body: '"given"', at: noon, key: "k" }],
      heading: { parent },
    });
    const answer = store.append(commit);
    commit.session = "b";
    commit.version = 9;
    commit.entries[0].body = '"changed"';
    commit.entries[0].at = 1;
    commit.entries[0].key = "other";
    commit.entries.push({ body: '"pushed"', at: 2 });
    commit.heading!.environment = "changed";
    commit.snapshot = { version: 1, body: '"changed"' };
    parent.version = 99;
    assert.equal(await answer, "ok");
    await expectLog(store, "a", ['"given"']);
    await expectLog(store, "b", undefined);
    const row = { session: "a", version: 1, touched: noon, environment: "shop", opened: noon };
    assert.deepEqual(await findRow(store, "a"), { ...row, parent: { session: "p", version: 3 } });
    assert.equal((await store.find("a", "k"))?.version, 1, "the original key");
    assert.equal((await store.load("a"))?.snapshot, undefined, "the commit had no snapshot");
  }),

  onStore("GROWTH: a log of 1,000 entries is stored completely and in order", async (store) => {
    await write(store, { session: "a", version: 0, entries: bodiesUpTo(500) });
    for (let version = 500; version < 1000; version++) await write(store, { session: "a", version });
    await expectLog(store, "a", bodiesUpTo(1000));
    assert.deepEqual(bare(await store.read("a", 998)), numbered(bodiesUpTo(1000, 998), 998));
  }),
];

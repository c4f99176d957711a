// Cases for delete: no trace of the session remains, other sessions are not affected, and old writers are refused.
import assert from "node:assert/strict";
import { onStore, type StoreCase } from "./harness.ts";
import { append, bare, bodiesUpTo, expectAnswer, expectLog, findRow, grow, ids, markOf, noon, write } from "./logs.ts";

export const deleteCases: StoreCase[] = [
  onStore("delete returns whether the session existed", async (store) => {
    assert.equal(await store.delete("a"), false, "in an empty store");
    await grow(store, "a", 2);
    assert.equal(await store.delete("b"), false, "another id");
    assert.equal(await store.delete("a"), true, "the first time");
    assert.equal(await store.delete("a"), false, "the second time");
  }),

  onStore("CLEANUP: nothing of a deleted session remains", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ key: "k" }, {}], snapshot: '"state"' });
    await store.delete("a");
    await expectLog(store, "a", undefined, "after it was deleted");
    assert.equal(await store.load("a"), undefined, "load");
    assert.equal(await store.find("a", "k"), undefined, "find");
    assert.equal(await store.count("shop"), 0, "count");
    assert.deepEqual(await ids(store, { open: true, idleBefore: noon + 999 }), [], "list by idle time");
  }),

  onStore("CLEANUP: deleting an ended session does not change the count of open sessions", async (store) => {
    await grow(store, "a", 1);
    await grow(store, "b", 1);
    await write(store, { session: "a", version: 1, heading: { ended: "closed" } });
    assert.equal(await store.delete("a"), true);
    assert.equal(await store.count("shop"), 1);
    assert.deepEqual(await ids(store), ["b"]);
  }),

  onStore("ISOLATION: deleting a session does not affect other sessions", async (store) => {
    for (const name of ["a", "ab", "b"]) {
      await write(store, { session: name, version: 0, entries: [{ key: "k" }, {}], snapshot: `"${name}"` });
    }
    const before = [await findRow(store, "a"), await findRow(store, "b")];
    await store.delete("ab");
    assert.deepEqual([await findRow(store, "a"), await findRow(store, "b")], before);
    for (const name of ["a", "b"]) {
      await expectLog(store, name, bodiesUpTo(2));
      assert.equal((await store.find(name, "k"))?.version, 1, `the key of ${name}`);
      assert.deepEqual(
        (await store.load(name))?.snapshot,
        { version: 2, body: `"${name}"` },
        `the snapshot of ${name}`,
      );
      await write(store, { session: name, version: 2 });
    }
    assert.deepEqual(await ids(store), ["a", "b"]);
  }),

  onStore("SERIAL: a delete for a version and mark keeps a log with another version or mark", async (store) => {
    assert.equal(await store.delete("a", { version: 1 }), false, "in an empty store");
    await grow(store, "a", 3);
    const last = await markOf(store, "a");
    await grow(store, "b", 4);
    const other = await markOf(store, "b");
    for (const end of [{ version: 2 }, { version: 4 }, { version: 3, seen: other }, { version: 2, seen: last }]) {
      assert.equal(await store.delete("a", end), false, `at version 3, delete for ${JSON.stringify(end)}`);
    }
    await expectLog(store, "a", bodiesUpTo(3), "after deletes for another end");
    assert.equal(await store.delete("a", { version: 3, seen: last }), true, "delete with the correct end");
    await expectLog(store, "a", undefined, "after it was deleted");
    await write(store, { session: "a", version: 0, entries: [{}, {}, { at: noon + 7 }] });
    assert.equal(await store.delete("a", { version: 3, seen: last }), false, "opened again, with the same length");
    await expectLog(store, "a", bodiesUpTo(3), "opened again");
    assert.equal(await store.delete("a", { version: 3 }), true, "delete with the version only");
    assert.equal(await store.count("shop"), 1);
  }),

  onStore("SERIAL: of a commit and a concurrent delete of the previous version, one is refused", async (store) => {
    for (let round = 0; round < 20; round++) {
      const session = `s${round}`;
      await grow(store, session, 2);
      const [answer, isDeleted] = await Promise.all([
        append(store, { session, version: 2 }),
        store.delete(session, { version: 2 }),
      ]);
      assert.equal(answer === "ok", !isDeleted, `${answer}, and deleted: ${isDeleted}`);
      await expectLog(store, session, isDeleted ? undefined : bodiesUpTo(3));
    }
  }),

  onStore("SERIAL: a writer that saw a session before it was deleted is refused", async (store) => {
    await grow(store, "a", 5);
    await store.delete("a");
    await expectAnswer(store, { session: "a", version: 5, heading: {} }, "conflict", "after it was deleted");
    await expectLog(store, "a", undefined, "after a refused commit");
    await write(store, { session: "a", version: 0, entries: ['"new"'] });
    await expectAnswer(store, { session: "a", version: 5 }, "conflict", "after it was opened again");
    await expectLog(store, "a", ['"new"'], "after a refused commit");
  }),

  onStore("an id can be used again after a delete, and the new session has no data from the old one", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ key: "k" }, { key: "l" }, {}], snapshot: '"old"' });
    await grow(store, "b", 1);
    await store.delete("a");
    await write(store, {
      session: "a",
      version: 0,
      entries: [{ body: '"new"', key: "k" }],
      heading: { environment: "chess" },
    });
    await expectLog(store, "a", ['"new"'], "opened again");
    assert.deepEqual(bare(await store.find("a", "k")), { version: 1, body: '"new"' }, "a key that the old session had");
    assert.equal(await store.find("a", "l"), undefined, "a key that only the old session had");
    assert.equal((await store.load("a"))?.snapshot, undefined, "the old session's snapshot");
    await write(store, { session: "a", version: 1, entries: [{}, {}] });
    assert.equal((await store.load("a", 3))?.snapshot, undefined, "the old session's snapshot, at its version");
    assert.deepEqual(await ids(store), ["b", "a"], "it was opened after b");
    assert.deepEqual([await store.count("shop"), await store.count("chess")], [1, 1], "the counts");
  }),
];

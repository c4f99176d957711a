// Cases for list and count: the content of rows, the filters, and the order.
import assert from "node:assert/strict";
import type { Filter, Heading, Listed, Store } from "../../core/store.ts";
import { onStore, type StoreCase } from "./harness.ts";
import { collect, expectAnswer, findRow, grow, ids, noon, tidy, write } from "./logs.ts";

/** Writes 24 sessions that differ in every filtered property. The newest entry of each has a different time. */
async function zoo(store: Store): Promise<Listed[]> {
  const rows: Listed[] = [];
  for (let index = 0; index < 24; index++) {
    const row: Listed = {
      session: `s${index}`,
      version: 2,
      environment: index % 3 === 0 ? "chess" : "shop",
      opened: noon + index * 10,
      touched: noon + 1000 + ((index * 7) % 24),
      ...(index % 4 === 1 && { ended: "closed" as const }),
      ...(index % 5 === 2 && { parent: { session: `s${index - 1}`, version: index } }),
    };
    await write(store, { session: row.session, version: 0, heading: { ...toHeading(row), ended: undefined } });
    rows.push(row);
  }
  // Commits in the order of the times, as with a clock that only moves forward.
  for (const row of rows.toSorted((a, b) => a.touched - b.touched)) {
    const { session, touched, ended } = row;
    await write(store, { session, version: 1, entries: [{ at: touched }], ...(ended && { heading: toHeading(row) }) });
  }
  return rows;
}

function toHeading({ environment, opened, parent, ended }: Listed): Heading {
  return { environment, opened, ...(parent && { parent }), ...(ended && { ended }) };
}

/** Computes the expected listing. */
function filtered(rows: Listed[], filter: Filter): Listed[] {
  const after = filter.after === undefined ? 0 : rows.findIndex((row) => row.session === filter.after) + 1;
  const kept = rows
    .slice(after)
    .filter((row) => filter.environment === undefined || row.environment === filter.environment)
    .filter((row) => filter.open === undefined || (row.ended === undefined) === filter.open)
    .filter((row) => filter.openedBefore === undefined || row.opened < filter.openedBefore)
    .filter((row) => filter.idleBefore === undefined || row.touched < filter.idleBefore);
  return filter.idleBefore === undefined ? kept : kept.toSorted((a, b) => a.touched - b.touched);
}

/** Returns every combination of filters; `after` and `idleBefore` exclude each other. */
function everyFilter(): Filter[] {
  const filters: Filter[] = [];
  for (const environment of [undefined, "shop", "chess", "none"]) {
    for (const open of [undefined, true, false]) {
      for (const openedBefore of [undefined, noon, noon + 110, noon + 9999]) {
        for (const place of [{}, { after: "s0" }, { after: "s9" }, { after: "s23" }]) {
          filters.push({ environment, open, openedBefore, ...place });
        }
        for (const idleBefore of [noon, noon + 1012, noon + 9999]) {
          filters.push({ environment, open, openedBefore, idleBefore });
        }
      }
    }
  }
  return filters.map((filter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined)));
}

export const listCases: StoreCase[] = [
  onStore("an empty store lists nothing and counts 0", async (store) => {
    assert.deepEqual(await collect(store), [], "without a filter");
    assert.deepEqual(await collect(store, {}), [], "with an empty filter");
    assert.deepEqual(await collect(store, { open: true, environment: "shop", openedBefore: noon }), []);
    assert.deepEqual(await collect(store, { idleBefore: noon }), [], "by idle time");
    assert.equal(await store.count("shop"), 0);
  }),

  onStore("FORK: a listed row has all fields of the heading, including the parent", async (store) => {
    await write(store, { session: "a", version: 0, heading: { environment: "chess", opened: noon + 5 } });
    await write(store, {
      session: "b",
      version: 0,
      heading: { opened: noon + 6, parent: { session: "a", version: 1 } },
    });
    const [a, b, ...rest] = await collect(store);
    assert.deepEqual(tidy(a), { session: "a", version: 1, touched: noon, environment: "chess", opened: noon + 5 });
    assert.deepEqual(
      tidy(b),
      {
        session: "b",
        version: 1,
        touched: noon,
        environment: "shop",
        opened: noon + 6,
        parent: { session: "a", version: 1 },
      },
      "the row of a fork",
    );
    assert.deepEqual(rest, []);
  }),

  onStore("a row has the version and time of the newest entry, immediately after each commit", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ at: noon + 1 }, { at: noon + 2 }, { at: noon + 3 }] });
    await grow(store, "b", 2);
    assert.deepEqual(await versionAndTime(store, "a"), [3, noon + 3], "opened with three entries");
    await write(store, { session: "a", version: 3, entries: [{ at: noon + 40 }] });
    assert.deepEqual(await versionAndTime(store, "a"), [4, noon + 40], "one more");
    await write(store, { session: "a", version: 4, entries: [{ at: noon + 50 }, { at: noon + 60 }] });
    assert.deepEqual(await versionAndTime(store, "a"), [6, noon + 60], "two more");
  }),

  onStore("a heading stays the same until a commit replaces it", async (store) => {
    const parent = { session: "p", version: 7 };
    await write(store, { session: "a", version: 0, heading: { opened: noon + 9, parent } });
    await write(store, { session: "a", version: 1, snapshot: '"s"' });
    const row = { session: "a", environment: "shop", opened: noon + 9, parent };
    assert.deepEqual(
      await findRow(store, "a"),
      { ...row, version: 2, touched: noon + 1 },
      "after a commit without a heading",
    );
    await write(store, { session: "a", version: 2, heading: { opened: noon + 9, parent, ended: "age" } });
    assert.deepEqual(
      await findRow(store, "a"),
      { ...row, version: 3, touched: noon + 2, ended: "age" },
      "after a commit with a new heading",
    );
  }),

  onStore("CLEANUP: a session that ends is listed as ended, and no longer listed or counted as open", async (store) => {
    const reasons = ["closed", "idle", "age", "capacity"] as const;
    for (const reason of reasons) await grow(store, reason, 2);
    await grow(store, "open", 2);
    for (const [index, reason] of reasons.entries()) {
      assert.equal(await store.count("shop"), 5 - index, `the count before ${reason}`);
      await write(store, { session: reason, version: 2, heading: { ended: reason } });
      assert.equal((await findRow(store, reason))?.ended, reason);
      const open = ["closed", "idle", "age", "capacity", "open"].slice(index + 1);
      open.splice(-1, 1, "open");
      assert.deepEqual(await ids(store, { open: true }), open, `the open sessions after ${reason}`);
      assert.deepEqual(
        await ids(store, { open: false }),
        reasons.slice(0, index + 1),
        `the ended sessions after ${reason}`,
      );
    }
    assert.equal(await store.count("shop"), 1, "the final count");
    assert.deepEqual(await ids(store), [...reasons, "open"], "all sessions, in the order of opening");
    await write(store, { session: "idle", version: 3, heading: { ended: "idle" } });
    assert.equal(await store.count("shop"), 1, "the count after an ended session's heading was written again");
  }),

  onStore("CLEANUP: an environment's only session is listed by idle time even after it ended", async (store) => {
    await grow(store, "a", 1);
    await write(store, { session: "a", version: 1, heading: { ended: "closed" } });
    const ended = { environment: "shop", open: false, idleBefore: noon + 999 };
    assert.deepEqual(await ids(store, ended), ["a"], "the ended one");
    assert.deepEqual(await ids(store, { ...ended, open: true }), [], "the open ones");
    await grow(store, "b", 1);
    assert.deepEqual(await ids(store, { idleBefore: noon + 999 }), ["b", "a"], "with another one beside it");
    await store.delete("a");
    await store.delete("b");
    await grow(store, "c", 1);
    assert.deepEqual(await ids(store, { idleBefore: noon + 999 }), ["c"], "after both were deleted");
    assert.equal(await store.count("shop"), 1);
  }),

  onStore("count counts the open sessions of one environment", async (store) => {
    await grow(store, "a", 3);
    await grow(store, "b", 1);
    await grow(store, "c", 1, { environment: "chess" });
    await grow(store, "d", 1, { environment: "chess", ended: "closed" });
    assert.equal(await store.count("shop"), 2);
    assert.equal(await store.count("chess"), 1);
    assert.equal(await store.count("Shop"), 0, "names differ by case");
    assert.equal(await store.count("none"), 0);
    await expectAnswer(store, { session: "b", version: 0 }, "conflict");
    assert.equal(await store.count("shop"), 2, "after a refused opening");
  }),

  onStore("sessions are listed in the order of opening, whatever happens to them later", async (store) => {
    const names = ["m", "z", "a", "Q", "10", "9", "b"];
    for (const [index, name] of names.entries()) await grow(store, name, 1, { opened: noon + index });
    for (const name of ["a", "z", "10"])
      await write(store, { session: name, version: 1, entries: [{ at: noon + 500 }] });
    await write(store, { session: "Q", version: 1, heading: { opened: noon + 3, ended: "closed" } });
    assert.deepEqual(await ids(store), names);
    assert.deepEqual(await ids(store, { open: true }), ["m", "z", "a", "10", "9", "b"]);
  }),

  onStore("sessions opened in the same millisecond have a stable order", async (store) => {
    const names = Array.from({ length: 30 }, (_, index) => `s${(index * 17) % 30}`);
    for (const name of names) await write(store, { session: name, version: 0 });
    assert.deepEqual(await ids(store), names);
    assert.deepEqual(await ids(store, { after: names[9]! }), names.slice(10));
  }),

  onStore("a cursor continues after a session, page by page, without gaps or repeats", async (store) => {
    const names = Array.from({ length: 45 }, (_, index) => `s${index}`);
    for (const [index, name] of names.entries()) await grow(store, name, 1, { opened: noon + index });
    const seen: string[] = [];
    for (;;) {
      const page: string[] = [];
      for await (const { session } of store.list(seen.length === 0 ? {} : { after: seen.at(-1)! })) {
        if (page.push(session) === 7) break;
      }
      if (page.length === 0) break;
      seen.push(...page);
      // Changes between two pages must not disturb the cursor.
      if (seen.length === 7) await store.delete("s2");
      if (seen.length === 14) await write(store, { session: "s13", version: 1 });
    }
    assert.deepEqual(seen, names);
  }),

  onStore("a cursor can be a session that the filter excludes", async (store) => {
    await grow(store, "a", 1);
    await grow(store, "b", 1, { environment: "chess", ended: "closed" });
    await grow(store, "c", 1);
    assert.deepEqual(await ids(store, { environment: "shop", open: true, after: "b" }), ["c"]);
    assert.deepEqual(await ids(store, { after: "c" }), [], "after the last");
  }),

  onStore("an unknown cursor is refused with session_not_found", async (store) => {
    await grow(store, "a", 1);
    await grow(store, "gone", 1);
    await store.delete("gone");
    await assert.rejects(
      collect(store, { after: "none" }),
      { code: "session_not_found" },
      "a session that never existed",
    );
    await assert.rejects(collect(store, { after: "gone" }), { code: "session_not_found" }, "deleted");
  }),

  onStore("every combination of filters returns the matching sessions, in the right order", async (store) => {
    const rows = await zoo(store);
    assert.deepEqual((await collect(store)).map(tidy), rows, "the whole list");
    for (const filter of everyFilter()) {
      const expected = filtered(rows, filter).map(({ session }) => session);
      assert.deepEqual(await ids(store, filter), expected, `listed with ${JSON.stringify(filter)}`);
    }
    for (const environment of ["shop", "chess"]) {
      assert.equal(await store.count(environment), filtered(rows, { environment, open: true }).length, environment);
    }
  }),

  onStore("CLEANUP: the sessions idle longest come first, and every commit updates the order", async (store) => {
    for (const [index, name] of ["a", "b", "c", "d"].entries()) {
      await write(store, { session: name, version: 0, entries: [{ at: noon + index }] });
    }
    const idle = (before: number): Promise<string[]> =>
      ids(store, { environment: "shop", open: true, idleBefore: before });
    assert.deepEqual(await idle(noon + 100), ["a", "b", "c", "d"], "as opened");
    await write(store, { session: "b", version: 1, entries: [{ at: noon + 10 }] });
    await write(store, { session: "a", version: 1, entries: [{ at: noon + 20 }] });
    await write(store, { session: "b", version: 2, entries: [{ at: noon + 30 }, { at: noon + 31 }] });
    assert.deepEqual(await idle(noon + 100), ["c", "d", "a", "b"], "after three commits");
    assert.deepEqual(await idle(noon + 20), ["c", "d"], "an entry at exactly that time is not older");
    assert.deepEqual(await idle(noon + 31), ["c", "d", "a"], "the newest entry of a commit counts");
    await write(store, { session: "c", version: 1, entries: [{ at: noon + 40 }], heading: { ended: "idle" } });
    assert.deepEqual(await idle(noon + 100), ["d", "a", "b"], "after one ended");
    assert.deepEqual(
      await ids(store, { idleBefore: noon + 100 }),
      ["d", "a", "b", "c"],
      "the ended session in the list of all sessions",
    );
    await store.delete("a");
    assert.deepEqual(await idle(noon + 100), ["d", "b"], "after one was deleted");
  }),

  onStore("the idle order follows the times of the entries, even if clocks disagree", async (store) => {
    const times = [50, 10, 40, 20, 30];
    for (const time of times) await write(store, { session: `at${time}`, version: 0, entries: [{ at: noon + time }] });
    assert.deepEqual(await ids(store, { idleBefore: noon + 45 }), ["at10", "at20", "at30", "at40"]);
    await write(store, { session: "at10", version: 1, entries: [{ at: noon + 25 }] });
    assert.deepEqual(await ids(store, { idleBefore: noon + 99 }), ["at20", "at10", "at30", "at40", "at50"]);
  }),

  onStore("ISOLATION: changes to a returned row or to the filter do not affect the store", async (store) => {
    await write(store, { session: "a", version: 0, heading: { parent: { session: "p", version: 1 } } });
    await grow(store, "b", 1, { environment: "chess" });
    for await (const row of store.list()) {
      if (row.parent) row.parent.version = 99;
      Object.assign(row, { session: "x", version: 99, environment: "x", opened: 1, touched: 1, ended: "closed" });
    }
    const row = { session: "a", version: 1, touched: noon, environment: "shop", opened: noon };
    assert.deepEqual(await findRow(store, "a"), { ...row, parent: { session: "p", version: 1 } });
    assert.equal(await store.count("shop"), 1);
    const filter: Filter = { environment: "shop" };
    const rows = store.list(filter);
    filter.environment = "chess";
    for await (const { session } of rows) assert.equal(session, "a", "the filter at the time of the call");
  }),
];

async function versionAndTime(store: Store, session: string): Promise<[number?, number?]> {
  const row = await findRow(store, session);
  return [row?.version, row?.touched];
}

// Cases for concurrent writers on one open store.
import assert from "node:assert/strict";
import type { Appended, Store } from "../../core/store.ts";
import { onStore, type StoreCase } from "./harness.ts";
import { append, bodiesUpTo, expectLog, grow, ids, findRow, write, readBodies } from "./logs.ts";

export function tally(answers: Appended[]): Record<Appended, number> {
  const counts = { ok: 0, conflict: 0, duplicate: 0 };
  for (const answer of answers) counts[answer]++;
  return counts;
}

/** Appends as the engine does: after a conflict it reads the missed entries and retries. */
export async function insist(store: Store, session: string, body: string): Promise<void> {
  let version = 0;
  for (let tries = 0; tries < 10_000; tries++) {
    version += (await store.read(session, version))?.length ?? 0;
    if ((await append(store, { session, version, entries: [body] })) === "ok") return;
  }
  assert.fail(`${body} was refused 10,000 times`);
}

/** Checks that the log "a" has these bodies after its first entry, in any order. */
export async function expectBodies(store: Store, bodies: string[]): Promise<void> {
  const entries = (await store.read("a", 1)) ?? [];
  assert.deepEqual(entries.map(({ body }) => body).toSorted(), bodies.toSorted(), "each body once");
  const versions = entries.map(({ version }) => version);
  const expected = bodies.map((_, index) => index + 2);
  assert.deepEqual(versions, expected, "no version twice");
}

export const raceCases: StoreCase[] = [
  onStore("SERIAL: of 64 commits on the same version exactly one is accepted", async (store) => {
    await grow(store, "a", 3);
    const writers = Array.from({ length: 64 }, (_, index) => index);
    const answers = await Promise.all(
      writers.map((writer) => append(store, { session: "a", version: 3, entries: [`"by ${writer}"`] })),
    );
    assert.deepEqual(tally(answers), { ok: 1, conflict: 63, duplicate: 0 });
    await expectLog(store, "a", [...bodiesUpTo(3), `"by ${answers.indexOf("ok")}"`], "contains the accepted commit");
  }),

  onStore("SERIAL: of 64 openings of the same session exactly one is accepted", async (store) => {
    const writers = Array.from({ length: 64 }, (_, index) => index);
    const answers = await Promise.all(
      writers.map((writer) =>
        append(store, {
          session: "a",
          version: 0,
          entries: [`"by ${writer}"`],
          heading: { environment: `e${writer}` },
        }),
      ),
    );
    assert.deepEqual(tally(answers), { ok: 1, conflict: 63, duplicate: 0 });
    const winner = answers.indexOf("ok");
    await expectLog(store, "a", [`"by ${winner}"`], "contains the accepted commit");
    assert.equal((await findRow(store, "a"))?.environment, `e${winner}`, "the heading is the winner's");
    for (const writer of writers)
      assert.equal(await store.count(`e${writer}`), Number(writer === winner), `e${writer}`);
  }),

  onStore(
    "ONCE: of 64 commits with the same key, exactly one is accepted, and the others are duplicates",
    async (store) => {
      await grow(store, "a", 1);
      const answers = await Promise.all(
        Array.from({ length: 64 }, () => append(store, { session: "a", version: 1, entries: [{ key: "k" }] })),
      );
      assert.deepEqual(tally(answers), { ok: 1, conflict: 0, duplicate: 63 });
      await expectLog(store, "a", bodiesUpTo(2));
    },
  ),

  onStore(
    "SERIAL: concurrent writers all succeed if they retry conflicts, and none overwrites another",
    async (store) => {
      await grow(store, "a", 1);
      const bodies = Array.from({ length: 64 }, (_, index) => `"${index}"`);
      await Promise.all(bodies.map((body) => insist(store, "a", body)));
      await expectBodies(store, bodies);
    },
  ),

  onStore("ISOLATION: 100 sessions that commit 50 times each, concurrently, keep their own logs", async (store) => {
    const names = Array.from({ length: 100 }, (_, index) => `s${index}`);
    await Promise.all(
      names.map(async (session) => {
        for (let version = 0; version < 50; version++) {
          const entries = [{ body: `"${session} ${version}"`, key: `k${version}` }];
          await write(store, { session, version, entries, ...(version % 20 === 19 && { snapshot: `"${session}"` }) });
        }
      }),
    );
    for (const session of names) {
      const bodies = Array.from({ length: 50 }, (_, version) => `"${session} ${version}"`);
      assert.deepEqual(await readBodies(store, session), bodies, `the log of ${session}`);
      assert.deepEqual((await store.load(session))?.snapshot, { version: 40, body: `"${session}"` }, `of ${session}`);
    }
    assert.deepEqual((await ids(store)).toSorted(), names.toSorted(), "each is listed once");
    assert.equal(await store.count("shop"), 100);
  }),

  onStore("ATOMIC: a refused commit does not affect commits that are written at the same time", async (store) => {
    await grow(store, "a", 1);
    await write(store, { session: "b", version: 0, entries: [{ key: "k" }] });
    const answers = await Promise.all([
      append(store, { session: "c", version: 0, entries: [{}, {}] }),
      append(store, { session: "a", version: 5 }),
      append(store, { session: "b", version: 1, entries: [{ key: "new" }, { key: "k" }] }),
      append(store, { session: "a", version: 1 }),
      append(store, { session: "b", version: 1, entries: [{ key: "new" }] }),
      append(store, { session: "d", version: 3 }),
      append(store, { session: "e", version: 0, entries: [{}, {}] }),
    ]);
    assert.deepEqual(answers, ["ok", "conflict", "duplicate", "ok", "ok", "conflict", "ok"]);
    for (const session of ["a", "b", "c", "e"]) await expectLog(store, session, bodiesUpTo(2));
    await expectLog(store, "d", undefined);
  }),

  onStore("SERIAL: a delete during concurrent commits leaves the whole log or nothing", async (store) => {
    for (let round = 0; round < 20; round++) {
      const session = `s${round}`;
      await grow(store, session, 2);
      const [answer, deleted, late] = await Promise.all([
        append(store, { session, version: 2 }),
        store.delete(session),
        append(store, { session, version: 3 }),
      ]);
      assert.equal(deleted, true, "the session existed");
      assert.equal(
        late === "ok" && answer === "conflict",
        false,
        "a later version was accepted without the one before",
      );
      await expectLog(store, session, undefined, `after ${answer}, deleted, ${late}`);
    }
    assert.equal(await store.count("shop"), 0);
  }),
];

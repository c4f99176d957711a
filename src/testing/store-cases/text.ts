// Cases for odd strings: ids, keys and names are any string, bodies any JSON text, and all are returned unchanged.
import assert from "node:assert/strict";
import { onStore, type StoreCase } from "./harness.ts";
import { append, bare, collect, expectAnswer, expectLog, ids, show, write } from "./logs.ts";

// Strings that collide in a store that trims, folds, normalises, quotes or parses them.
const oddStrings = [
  "plain",
  "Plain",
  "PLAIN",
  " plain",
  "plain ",
  "plain  ",
  "plain\n",
  "plain\t",
  "plain\0",
  "plain\0more",
  "\u00e9", // é as one code point
  "e\u0301", // é as two code points
  "\u212b",
  "\u00c5",
  "ß",
  "SS",
  "ı",
  "I",
  "i",
  "🦀",
  "🦀🦀",
  "👩‍👩‍👧‍👦",
  "日本語",
  "\u202eright to left",
  "\ufeffbom",
  "\uffff",
  "it's",
  'say "hi"',
  "back\\slash",
  "'; DROP TABLE sessions; --",
  "a/b",
  "../../etc/passwd",
  "a:b",
  "a%2Fb",
  "%",
  "_",
  "*",
  "{a}",
  "?x=1&y=2#z",
  "0",
  "00",
  "-0",
  "1e3",
  "null",
  "undefined",
  "true",
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "length",
  "x".repeat(200),
  `${"x".repeat(199)}y`,
  "🦀".repeat(100),
];

const oddBodies = [
  "null",
  "0",
  "-0",
  "1e400",
  "12345678901234567890.10",
  '""',
  "[]",
  '{ "spaces" :  1 }',
  '{"b":1,"a":2,"b":3}',
  '{"__proto__":{"polluted":true},"constructor":null}',
  String.raw`"\ud800 alone, \u0000 and \"quotes\" and \\ and \/"`,
  '"\u2028 \u2029 \u007f"',
  '"é e\u0301 🦀 日本語 \ufffd"',
  "\n[1,\r\n2]\t ",
  `"it's; $1 ? :name @x %s {}"`,
];

export const textCases: StoreCase[] = [
  onStore("ISOLATION: ids that look alike are different sessions", async (store) => {
    for (const [index, session] of oddStrings.entries())
      await write(store, { session, version: 0, entries: [`${index}`] });
    for (const [index, session] of oddStrings.entries()) await expectLog(store, session, [`${index}`]);
    assert.deepEqual(await ids(store), oddStrings, "the list");
    for (const [index, after] of oddStrings.entries()) {
      assert.deepEqual(await ids(store, { after }), oddStrings.slice(index + 1), `the list after ${show(after)}`);
    }
    for (const [index, session] of oddStrings.entries()) {
      if (index % 2 === 0) assert.equal(await store.delete(session), true, `deleting ${show(session)}`);
    }
    assert.deepEqual(
      await ids(store),
      oddStrings.filter((_, index) => index % 2 === 1),
      "after deleting every other one",
    );
  }),

  onStore("ids that were never opened are missing, even unusual ones", async (store) => {
    await write(store, { session: "a", version: 0, entries: [{ key: "k" }] });
    for (const session of oddStrings) {
      assert.equal(await store.read(session, 0), undefined, `read of ${show(session)}`);
      assert.equal(await store.load(session), undefined, `load of ${show(session)}`);
      assert.equal(await store.find(session, "k"), undefined, `find in ${show(session)}`);
      assert.equal(await store.find("a", session), undefined, `find of ${show(session)}`);
      assert.equal(await store.count(session), 0, `count of ${show(session)}`);
      assert.equal(await store.delete(session), false, `delete of ${show(session)}`);
      await expectAnswer(store, { session, version: 1, heading: {} }, "conflict", `append to ${show(session)}`);
    }
  }),

  onStore("ONCE: keys that look alike are different keys", async (store) => {
    const entries = oddStrings.map((key, index) => ({ body: `${index}`, key }));
    await write(store, { session: "a", version: 0, entries });
    for (const [index, key] of oddStrings.entries()) {
      assert.deepEqual(
        bare(await store.find("a", key)),
        { version: index + 1, body: `${index}` },
        `find of ${show(key)}`,
      );
      const answer = await append(store, { session: "a", version: oddStrings.length, entries: [{ key }] });
      assert.equal(answer, "duplicate", `a second entry with the key ${show(key)}`);
    }
  }),

  onStore("environments with similar names are counted and listed separately", async (store) => {
    for (const [index, environment] of oddStrings.entries()) {
      await write(store, { session: `s${index}`, version: 0, heading: { environment } });
    }
    for (const [index, environment] of oddStrings.entries()) {
      assert.equal(await store.count(environment), 1, `the count of ${show(environment)}`);
      const rows = await collect(store, { environment });
      assert.deepEqual(
        rows.map((row) => [row.session, row.environment]),
        [[`s${index}`, environment]],
        show(environment),
      );
    }
  }),

  onStore("a parent's id is returned unchanged", async (store) => {
    for (const [index, session] of oddStrings.entries()) {
      await write(store, { session: `s${index}`, version: 0, heading: { parent: { session, version: index + 1 } } });
    }
    const parents = (await collect(store)).map((row) => row.parent);
    assert.deepEqual(
      parents,
      oddStrings.map((session, index) => ({ session, version: index + 1 })),
    );
  }),

  onStore("a body is returned as exactly the same text, as an entry and as a snapshot", async (store) => {
    for (const [version, body] of oddBodies.entries()) {
      await write(store, { session: "a", version, entries: [{ body, key: `k${version}` }], snapshot: body });
    }
    await expectLog(store, "a", oddBodies);
    for (const [index, body] of oddBodies.entries()) {
      assert.deepEqual(bare(await store.find("a", `k${index}`)), { version: index + 1, body }, `found ${show(body)}`);
      const loaded = await store.load("a", index + 1);
      assert.deepEqual(loaded?.snapshot, { version: index + 1, body }, `the snapshot ${show(body)}`);
    }
    assert.equal(({} as Record<string, unknown>)["polluted"], undefined, "a body changed Object.prototype");
  }),

  onStore("bodies of 5 MB are stored completely", async (store) => {
    const large = JSON.stringify("0123456789 ünï 🦀 ".repeat(260_000));
    assert.ok(Buffer.byteLength(large) > 5_000_000);
    await write(store, {
      session: "a",
      version: 0,
      entries: [{ body: large, key: "k" }, '"small"'],
      snapshot: `[${large}]`,
    });
    await write(store, { session: "a", version: 2 });
    const same = (body: string | undefined, expected: string, what: string): void =>
      assert.ok(body === expected, `${what} differs: ${body?.length} characters, not ${expected.length}`);
    same((await store.read("a", 0, 1))?.[0]?.body, large, "the entry, read,");
    same((await store.find("a", "k"))?.body, large, "the entry, found,");
    same((await store.load("a", 1))?.entries[0]?.body, large, "the entry, loaded,");
    same((await store.load("a"))?.snapshot?.body, `[${large}]`, "the snapshot");
    assert.deepEqual(bare(await store.read("a", 1)), [
      { version: 2, body: '"small"' },
      { version: 3, body: '{"n":3}' },
    ]);
  }),
];

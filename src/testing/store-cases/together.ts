// Cases for several commits in one append: all are stored or none, for every reader and with concurrent writers.
import assert from "node:assert/strict";
import type { Appended, Store } from "../../core/store.ts";
import { onStorage, onStore, type StoreCase } from "./harness.ts";
import {
  append,
  bare,
  bodiesUpTo,
  buildCommit,
  collect,
  expectAnswer,
  expectLog,
  findRow,
  grow,
  ids,
  noon,
  numbered,
  write,
  readBodies,
  type CommitOptions,
} from "./logs.ts";
import { tally } from "./races.ts";

function appendAll(store: Store, [first, ...rest]: CommitOptions[]): Promise<Appended> {
  assert.ok(first, "there is something to append");
  return store.append(buildCommit(first), ...rest.map(buildCommit));
}

/** Possible outcomes of a commit on a log of two entries, whose second entry has the key "k". */
const outcomes: Record<string, { answer: Appended; given: Omit<CommitOptions, "session"> }> = {
  extends: { answer: "ok", given: { version: 2, entries: [{ key: "new" }, {}], snapshot: '"new"' } },
  ends: { answer: "ok", given: { version: 2, heading: { environment: "chess", ended: "closed" } } },
  opens: { answer: "ok", given: { version: 0, entries: [{ key: "new" }, {}], snapshot: '"new"' } },
  stale: { answer: "conflict", given: { version: 1, entries: [{ key: "new" }], snapshot: '"stale"' } },
  reopens: { answer: "conflict", given: { version: 0, heading: { environment: "chess" } } },
  absent: { answer: "conflict", given: { version: 3, entries: [{ key: "new" }] } },
  repeats: { answer: "duplicate", given: { version: 2, entries: [{ key: "new" }, { key: "k" }] } },
  "repeats, stale": { answer: "duplicate", given: { version: 1, entries: [{ key: "k" }] } },
  twins: { answer: "duplicate", given: { version: 0, entries: [{ key: "x" }, { key: "x" }] } },
};
const withoutLog = new Set(["opens", "absent", "twins"]);

interface Mix {
  kinds: string[];
  commits: CommitOptions[];
  answer: Appended;
}

/** Returns all ordered triples of outcomes. Every commit has its own session. */
function everyMix(): Mix[] {
  const names = Object.keys(outcomes);
  const triples = names.flatMap((a) => names.flatMap((b) => names.map((c) => [a, b, c])));
  return triples.map((triple, index) => {
    const answers = new Set(triple.map((kind) => outcomes[kind]!.answer));
    const refusal = (["duplicate", "conflict"] as const).find((answer) => answers.has(answer));
    return {
      kinds: triple,
      commits: triple.map((kind, at) => ({ session: `${index} ${at}`, ...outcomes[kind]!.given })),
      answer: refusal ?? "ok",
    };
  });
}

/** Writes the logs that the commits of the mixes extend. */
async function prepare(store: Store, mixes: Mix[]): Promise<void> {
  const there = mixes.flatMap((mix) => mix.commits.filter((_, at) => !withoutLog.has(mix.kinds[at]!)));
  await Promise.all(
    there.map(({ session }) => write(store, { session, version: 0, entries: [{}, { key: "k" }], snapshot: '"old"' })),
  );
}

/** Compares all visible data of each session with its expected state after the commits. */
async function expectOutcomes(store: Store, mixes: Mix[]): Promise<void> {
  const rows = new Map((await collect(store)).map((row) => [row.session, row]));
  const open = { shop: 0, chess: 0 };
  for (const { kinds, commits, answer } of mixes) {
    for (const [at, given] of commits.entries()) {
      const stored = answer === "ok";
      const before = withoutLog.has(kinds[at]!) ? 0 : 2;
      const { session, entries, heading, snapshot } = buildCommit(given);
      const version = stored ? before + entries.length : before;
      const what = `${session}, which ${kinds[at]!}, of ${kinds.join(" + ")}`;
      const row = rows.get(session);
      assert.deepEqual(
        bare(await store.read(session, 0)),
        version === 0 ? undefined : numbered(bodiesUpTo(version)),
        `the log of ${what}`,
      );
      assert.equal(row?.version ?? 0, version, `the version of ${what}, listed`);
      const fresh = await store.find(session, "new");
      const hasNew = stored && entries.some(({ key }) => key === "new");
      assert.equal(fresh?.version, hasNew ? before + 1 : undefined, `the new key of ${what}`);
      const old = before === 0 ? undefined : { version: 2, body: '"old"' };
      assert.deepEqual((await store.load(session))?.snapshot, (stored && snapshot) || old, `the snapshot of ${what}`);
      if (row === undefined) continue;
      const environment = (stored && heading?.environment) || "shop";
      assert.equal(row.environment, environment, `the environment of ${what}`);
      assert.equal(row.ended, stored ? heading?.ended : undefined, `the end reason of ${what}`);
      if (row.ended === undefined) open[environment as keyof typeof open]++;
    }
  }
  for (const [environment, count] of Object.entries(open)) {
    assert.equal(await store.count(environment), count, `the count of ${environment}`);
  }
}

/** Appends the same body to several logs in one append. After a conflict, reads the logs again and retries. */
async function insistOnAll(store: Store, sessions: string[], body: string): Promise<void> {
  for (let tries = 0; tries < 10_000; tries++) {
    const lengths = await Promise.all(sessions.map(async (session) => (await store.read(session, 0))?.length ?? 0));
    const commits = sessions.map((session, at) => ({ session, version: lengths[at]!, entries: [{ body, key: body }] }));
    const answer = await appendAll(store, commits);
    assert.notEqual(answer, "duplicate", `${body} is in the log, although it was never accepted`);
    if (answer === "ok") return;
  }
  assert.fail(`${body} was refused 10,000 times`);
}

const names = ["a", "b", "c"] as const;

/** Races writers on several handles. Each writer appends one body to two of three logs; both logs must then have it. */
async function raceOverThree(handles: Store[]): Promise<void> {
  const writers = Array.from({ length: 60 }, (_, index) => ({
    store: handles[index % handles.length]!,
    sessions: [names[index % 3]!, names[(index + 1 + (index % 2)) % 3]!],
    body: `"${index}"`,
  }));
  await Promise.all(writers.map(({ store, sessions, body }) => insistOnAll(store, sessions, body)));
  for (const store of handles) {
    for (const name of names) {
      const expected = writers.filter(({ sessions }) => sessions.includes(name)).map(({ body }) => body);
      assert.deepEqual((await readBodies(store, name)).toSorted(), expected.toSorted(), `the log of ${name}`);
    }
  }
}

/** Polls two logs that always grow together. Progress seen in one must be visible in the other. */
async function watch(store: Store, isDone: (rounds: number) => boolean): Promise<void> {
  const readLength = async (session: string): Promise<number> => (await store.read(session, 0))?.length ?? 0;
  const readVersion = async (session: string): Promise<number> =>
    (await store.load(session))?.entries.at(-1)?.version ?? 0;
  for (let rounds = 0; !isDone(rounds); rounds++) {
    for (const [first, second] of [
      ["a", "b"],
      ["b", "a"],
    ] as const) {
      const seen = await readLength(first);
      assert.ok((await readLength(second)) >= seen, `${first} was read at ${seen}, and ${second} after it at less`);
      const loaded = await readVersion(first);
      assert.ok((await readVersion(second)) >= loaded, `${first} was loaded at ${loaded}, and ${second} at less`);
      const found = await store.find(first, `k${loaded + 1}`);
      if (found) assert.ok(await store.find(second, `k${loaded + 1}`), `a key was found in ${first} only`);
    }
    const versions = (await collect(store)).map(({ version }) => version);
    assert.ok(versions.length !== 1, "one of two sessions opened together was listed without the other");
    assert.ok((versions[1] ?? 0) >= (versions[0] ?? 0), `listed at ${versions.join(" and then ")}`);
    // Lets the writers run, even if the store reads synchronously.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Grows two logs through one handle while all handles poll them, each at least twice. */
async function watchedGrowth(writer: Store, watchers: Store[]): Promise<void> {
  let done = false;
  const late = new Set(watchers);
  const looked = (store: Store, rounds: number): boolean => {
    if (rounds > 1) late.delete(store);
    return done;
  };
  const watching = Promise.all(watchers.map((store) => watch(store, (rounds) => looked(store, rounds))));
  try {
    for (let version = 0; version < 100 || (late.size > 0 && version < 2_000); version++) {
      const entries = [{ key: `k${version + 1}` }];
      const answer = await appendAll(
        writer,
        ["a", "b"].map((session) => ({ session, version, entries })),
      );
      assert.equal(answer, "ok");
      if (version % 4 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  } finally {
    done = true;
  }
  await watching;
  assert.equal(late.size, 0, "a reader did not see the logs twice while they grew");
}

export const togetherCases: StoreCase[] = [
  onStore("ATOMIC: commits appended together can open, extend and end logs", async (store) => {
    await grow(store, "a", 2);
    await grow(store, "b", 1);
    const parent = { session: "a", version: 2 };
    const answer = await appendAll(store, [
      { session: "a", version: 2, entries: [{ key: "k", at: noon + 50 }, {}], snapshot: '"a4"' },
      { session: "c", version: 0, heading: { environment: "chess", parent }, snapshot: '"c1"' },
      { session: "b", version: 1, heading: { ended: "closed" } },
    ]);
    assert.equal(answer, "ok");
    await expectLog(store, "a", bodiesUpTo(4));
    await expectLog(store, "b", bodiesUpTo(2));
    await expectLog(store, "c", bodiesUpTo(1));
    assert.deepEqual((await store.load("a"))?.snapshot, { version: 4, body: '"a4"' });
    assert.deepEqual((await store.load("c"))?.snapshot, { version: 1, body: '"c1"' });
    const row = { session: "c", version: 1, touched: noon, environment: "chess", opened: noon, parent };
    assert.deepEqual(await findRow(store, "c"), row);
    assert.deepEqual(await ids(store, { open: true }), ["a", "c"]);
    assert.deepEqual([await store.count("shop"), await store.count("chess")], [1, 1], "the counts");
    for (const [session, version] of Object.entries({ a: 4, b: 2, c: 1 })) await write(store, { session, version });
  }),

  onStore("ATOMIC: commits appended together are all stored or all refused", async (store) => {
    const mixes = everyMix();
    await prepare(store, mixes);
    for (const { kinds, commits, answer } of mixes) {
      assert.equal(await appendAll(store, commits), answer, `the answer to ${kinds.join(" + ")}`);
    }
    await expectOutcomes(store, mixes);
  }),

  onStore(
    "ATOMIC: commits that are refused together do not affect commits that are written at the same time",
    async (store) => {
      const mixes = everyMix();
      await prepare(store, mixes);
      const alone = mixes.map((_, index) => ({
        session: `alone ${index}`,
        version: 0,
        heading: { environment: "solo" },
      }));
      const answers = await Promise.all(
        mixes.flatMap(({ commits }, index) => [appendAll(store, commits), append(store, alone[index]!)]),
      );
      assert.deepEqual(
        answers,
        mixes.flatMap(({ answer }) => [answer, "ok"]),
      );
      await expectOutcomes(store, mixes);
      for (const { session } of alone) assert.equal((await store.read(session, 0))?.length, 1, session);
      assert.equal(await store.count("solo"), alone.length);
    },
  ),

  onStore("commits appended together must be for different sessions", async (store) => {
    await grow(store, "a", 1);
    const twice = [
      { session: "b", version: 0 },
      { session: "a", version: 1 },
      { session: "a", version: 2 },
    ];
    await assert.rejects(appendAll(store, twice), { code: "invalid_option" });
    await assert.rejects(appendAll(store, [twice[1]!, twice[0]!, twice[1]!]), { code: "invalid_option" });
    await expectLog(store, "a", bodiesUpTo(1));
    await expectLog(store, "b", undefined);
    assert.equal(await appendAll(store, twice.slice(0, 2)), "ok");
  }),

  onStore("ONCE: commits appended together can have the same key, because keys belong to one log", async (store) => {
    const both = (version: number, key: string): CommitOptions[] =>
      ["a", "b"].map((session) => ({ session, version, entries: [{ body: `"${session}"`, key }] }));
    assert.equal(await appendAll(store, both(0, "k")), "ok");
    for (const session of ["a", "b"]) {
      assert.deepEqual(bare(await store.find(session, "k")), { version: 1, body: `"${session}"` });
      await expectAnswer(store, { session, version: 1, entries: [{ key: "k" }] }, "duplicate");
    }
    assert.equal(await appendAll(store, both(1, "k")), "duplicate", "a repeat");
    assert.equal(await appendAll(store, both(0, "k")), "duplicate", "a second opening");
    await write(store, { session: "b", version: 1, entries: [{ key: "l" }] });
    assert.equal(await appendAll(store, both(1, "l")), "duplicate", "a key that one of the logs has");
    await expectAnswer(store, { session: "a", version: 1, entries: [{ key: "l" }] }, "ok", "the key is free in a");
  }),

  onStore("ISOLATION: a session whose opening was refused is not confused with another session", async (store) => {
    await grow(store, "a", 1);
    const refused = [
      { session: "b", version: 0, entries: ['"refused"', '"refused"'] },
      { session: "a", version: 5 },
    ];
    assert.equal(await appendAll(store, refused), "conflict");
    // A store that numbers its sessions may give this session the number intended for b.
    await write(store, { session: "c", version: 0, entries: ['"c"', { body: '"c"', key: "k" }] });
    await expectAnswer(store, { session: "b", version: 2 }, "conflict", "a commit after a refused one");
    await expectAnswer(store, { session: "b", version: 2, entries: [{ key: "k" }] }, "conflict", "with a key");
    assert.equal(await store.find("b", "k"), undefined);
    await write(store, { session: "b", version: 0, entries: ['"b"'] });
    await write(store, { session: "b", version: 1, entries: ['"b"'] });
    await write(store, { session: "c", version: 2, entries: ['"c"'] });
    await expectLog(store, "b", ['"b"', '"b"']);
    await expectLog(store, "c", ['"c"', '"c"', '"c"']);
    assert.deepEqual(await ids(store), ["a", "c", "b"], "the order of opening");
  }),

  onStore("ISOLATION: changes to commit objects after the call do not affect the store", async (store) => {
    const commits = ["a", "b", "c"].map((session) => buildCommit({ session, version: 0, entries: [{ key: "k" }] }));
    const [first, ...together] = commits;
    const answer = store.append(first!, ...together);
    for (const commit of commits) {
      commit.session = "d";
      commit.version = 9;
      commit.entries[0].body = '"changed"';
      commit.entries.push({ body: '"pushed"', at: 2 });
      commit.heading!.environment = "changed";
    }
    together.pop();
    assert.equal(await answer, "ok");
    for (const session of ["a", "b", "c"]) await expectLog(store, session, bodiesUpTo(1));
    assert.deepEqual(await ids(store, { environment: "shop" }), ["a", "b", "c"]);
  }),

  onStore("GROWTH: 200 logs are opened and extended together", async (store) => {
    const sessions = Array.from({ length: 200 }, (_, index) => `s${index}`);
    for (const version of [0, 1]) {
      const commits = sessions.map((session) => ({ session, version }));
      assert.equal(await appendAll(store, commits), "ok");
      assert.equal(await appendAll(store, commits), "conflict");
      assert.equal(await appendAll(store, [{ session: "z", version: 0 }, ...commits]), "conflict");
    }
    assert.deepEqual((await ids(store)).toSorted(), sessions.toSorted());
    for (const session of sessions)
      assert.deepEqual(bare(await store.read(session, 0)), numbered(bodiesUpTo(2)), session);
  }),

  onStore("SERIAL: of 64 attempts to open the same two sessions together, exactly one is accepted", async (store) => {
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, writer) => {
        const both = ["a", "b"].map((session) => ({ session, version: 0, entries: [`"by ${writer}"`] }));
        return appendAll(store, writer % 2 === 0 ? both : both.toReversed());
      }),
    );
    assert.deepEqual(tally(answers), { ok: 1, conflict: 63, duplicate: 0 });
    for (const session of ["a", "b"]) await expectLog(store, session, [`"by ${answers.indexOf("ok")}"`]);
    assert.equal(await store.count("shop"), 2);
  }),

  onStore("SERIAL: writers that each change two of three logs all succeed if they retry conflicts", (store) =>
    raceOverThree([store]),
  ),

  onStore("SERIAL: a delete during commits appended together leaves all of them or none", async (store) => {
    for (let round = 0; round < 20; round++) {
      const [gone, kept] = [`gone ${round}`, `kept ${round}`];
      await grow(store, gone, 2);
      await grow(store, kept, 2);
      const commits = [kept, gone].map((session) => ({ session, version: 2 }));
      const racers = [() => appendAll(store, commits), () => store.delete(gone)];
      if (round % 2 === 1) racers.reverse();
      const answers = await Promise.all(racers.map((racer) => racer()));
      assert.ok(answers.includes(true), "there was something to delete");
      await expectLog(store, gone, undefined);
      await expectLog(store, kept, bodiesUpTo(answers.includes("ok") ? 3 : 2), `after ${answers.join(", ")}`);
    }
  }),

  onStore("ATOMIC: a reader that sees one of several commits appended together sees all of them", (store) =>
    watchedGrowth(store, [store]),
  ),

  onStorage("ATOMIC: a reader on another handle sees all commits appended together, or none", async (open) => {
    const [first, second] = [await open(), await open()];
    await watchedGrowth(first, [first, second]);
  }),

  onStorage("SERIAL: writers on two handles that each change two of three logs all succeed", async (open) => {
    const handles = [await open(), await open()];
    await raceOverThree(handles);
    await Promise.all(handles.map((store) => store.close()));
    const again = await open();
    assert.equal(new Set((await Promise.all(names.map((name) => readBodies(again, name)))).flat()).size, 60);
  }),

  onStorage("DURABLE: commits appended together before close are stored", async (open) => {
    const first = await open();
    const answers = Array.from({ length: 40 }, (_, index) =>
      appendAll(first, [
        { session: `a${index}`, version: 0, entries: [{ key: "k" }], snapshot: '"a"' },
        { session: index % 2 === 0 ? `b${index}` : "b0", version: 0 },
      ]),
    );
    await Promise.all([...answers, first.close()]);
    const store = await open();
    for (const [index, answer] of answers.entries()) {
      const accepted = (await answer) === "ok";
      assert.equal(accepted, index % 2 === 0, `the answer to pair ${index}`);
      await expectLog(store, `a${index}`, accepted ? bodiesUpTo(1) : undefined);
      const repeat = { session: `a${index}`, version: 0, entries: [{ key: "k" }] };
      if (accepted) await expectAnswer(store, repeat, "duplicate");
    }
    assert.equal(await store.count("shop"), 40);
  }),
];

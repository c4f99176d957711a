// Whether one commit costs more with a longer history, a larger state, more sessions in the store.
import { createSessions, defineEnvironment, tool } from "holdfast";
import { z } from "zod";
import { counter } from "./counter.mjs";
import { interleave, shuffled } from "./measure.mjs";
import { withStore } from "./open-store.mjs";
import { costRow } from "./table.mjs";

/** @typedef {import("holdfast").Store} Store */
/** @typedef {import("./open-store.mjs").StoreName} StoreName */
/** @typedef {import("./measure.mjs").Measured} Measured */
/** @typedef {import("./table.mjs").Row} Row */
/** @typedef {import("./table.mjs").Options} Options */

/** Commits in one sample. */
const chunk = 200;

/** The same where each goes to another session: as many as fit into 10,000 sessions with none called twice. */
const spread = 100;

/** @type {StoreName[]} */
const stores = ["memory", "SQLite process"];

const notes = [
  "One call at a time, so that a commit on SQLite is a transaction. History: calls have ids. State: one field changes,",
  "and a snapshot is charged to the commits it fell among, at its full cost. Sessions: each call goes to one picked at",
  'random, none twice; "in the cache": the process has it in hand, "loaded first": it is read from the store for the call.',
].join("\n");

/** @param {Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run(options) {
  /** @type {Row[]} */
  const rows = [];
  for (const part of [history, state, sessions]) {
    for (const name of stores) {
      options.progress(`${part.name}, ${name}`);
      rows.push(...(await part(name, options)));
    }
  }
  return { rows, notes: [notes] };
}

/** @param {StoreName} name @param {Options} options */
const history = (name, options) => withStore(name, (store) => historyIn(name, store, options));

/** @param {StoreName} name @param {Store} store @param {Options} options @returns {Promise<Row[]>} */
async function historyIn(name, store, { quick }) {
  const counted = counting(store);
  const engine = createSessions({ environment: counter, store: counted.store });
  // More than elsewhere: the bar is close, and the first calls after a change of variant are slow.
  const commits = quick ? chunk : 5 * chunk;
  let calls = 0;
  const call = (/** @type {string} */ id) => engine.call(id, "add", { by: 1 }, { call: `call_${++calls}` });
  const grown = async (/** @type {number} */ events) => {
    const { session } = await engine.open({ task: { start: 0 } });
    // Opening and seeding are two events.
    for (let event = 2; event < events; event++) await call(session);
    return session;
  };
  /** Commits on sessions of about this length: a fresh one is taken when one has grown too long. */
  const ofLength = (/** @type {number} */ events, /** @type {number} */ each) => {
    /** @type {string[]} */
    let ids = [];
    let left = 0;
    const atOnce = Math.min(each, commits);
    return {
      prepare: async () => {
        if (left <= 0) {
          ids = [];
          for (let taken = 0; taken < commits; taken += atOnce) ids.push(await grown(events));
          left = each;
        }
        left -= atOnce;
        // What the processor has at hand should be this variant's, for those too that had nothing to prepare.
        const lead = await grown(50);
        for (let commit = 0; commit < 50; commit++) await call(each === Infinity ? (ids[0] ?? lead) : lead);
      },
      run: async () => {
        const before = calls;
        for (const id of ids) for (let commit = 0; commit < atOnce; commit++) await call(id);
        return calls - before;
      },
      kind: counted.since,
    };
  };
  const long = quick ? 20_000 : 100_000;
  const measured = await interleave(
    { short: ofLength(10, 10), middle: ofLength(1000, 1000), long: ofLength(long, Infinity) },
    { rounds: quick ? 10 : 80 },
  );
  const compared = { to: "10 events", reference: measured.short };
  return [
    costRow(`${name}: history of 10 events`, measured.short),
    costRow(`${name}: history of 1,000 events`, measured.middle, compared),
    costRow(`${name}: history of ${long.toLocaleString("en")} events`, measured.long, {
      ...compared,
      bar: { atMost: 1.3 },
    }),
  ];
}

const table = defineEnvironment({
  name: "table",
  state: z.object({
    rows: z.array(z.object({ id: z.number(), name: z.string(), value: z.number() })),
    cells: z.record(z.string(), z.number()),
  }),
  task: z.object({ rows: z.number().int(), cells: z.number().int() }),
  seed: ({ task }) => ({
    rows: Array.from({ length: task.rows }, (_, id) => ({ id, name: `the name of row ${id}`, value: 0 })),
    cells: Object.fromEntries(Array.from({ length: task.cells }, (_, id) => [`cell ${id}`, id])),
  }),
  tools: {
    row: tool({
      description: "Change one field of one row.",
      input: z.object({ row: z.number().int(), value: z.number() }),
      run: ({ state }, { row, value }) => {
        const found = state.rows[row];
        if (found) found.value = value;
        return { row };
      },
    }),
    cell: tool({
      description: "Change one key of a wide object.",
      input: z.object({ cell: z.number().int(), value: z.number() }),
      run: ({ state }, { cell, value }) => {
        state.cells[`cell ${cell}`] = value;
        return { cell };
      },
    }),
  },
});

/** @param {StoreName} name @param {Options} options */
const state = (name, options) => withStore(name, (store) => stateIn(name, store, options));

/** @param {StoreName} name @param {Store} store @param {Options} options @returns {Promise<Row[]>} */
async function stateIn(name, store, { quick }) {
  const counted = counting(store);
  const engine = createSessions({ environment: table, store: counted.store });
  /** @type {Record<string, import("./measure.mjs").Variant>} */
  const variants = {};
  const sizes = { "1 KB": 1e3, "100 KB": 1e5, ...(quick ? { "500 KB": 5e5 } : { "5 MB": 5e6 }) };
  const shapes = /** @type {const} */ (["row", "cell"]);
  for (const [size, bytes] of Object.entries(sizes)) {
    for (const shape of shapes) {
      // About as long as they are in JSON.
      const count = Math.round(bytes / (shape === "row" ? 55 : 19));
      const task = shape === "row" ? { rows: count, cells: 0 } : { rows: 0, cells: count };
      const { session } = await engine.open({ task });
      let calls = 0;
      variants[`${shape} ${size}`] = {
        run: async () => {
          for (let commit = 0; commit < chunk; commit++) {
            // Steps through all of it in no order, and always to a new value.
            const at = (++calls * 7919) % count;
            if (shape === "row") await engine.call(session, "row", { row: at, value: calls });
            else await engine.call(session, "cell", { cell: at, value: -calls });
          }
          return chunk;
        },
        kind: counted.since,
      };
    }
  }
  // A snapshot of the largest state comes every 10 MB of log, about 55,000 commits: there has to be one of them.
  const measured = await interleave(variants, { rounds: quick ? 32 : 320, warmup: 3 });
  const [small = "", middle, large] = Object.keys(sizes);
  return shapes.flatMap((shape) => {
    const of = (/** @type {string | undefined} */ size) => named(measured, `${shape} ${size}`);
    const what = `${name}: ${shape === "row" ? "array of rows" : "wide object"} of`;
    const compared = { to: small, reference: of(small) };
    if (!quick && of(large).kinds === 0)
      throw new Error(`${what} ${large}: no snapshot fell into the run; make it longer`);
    return [
      costRow(`${what} ${small}`, of(small)),
      costRow(`${what} ${middle}`, of(middle), compared),
      costRow(`${what} ${large}`, of(large), { ...compared, bar: { atMost: 3 } }),
    ];
  });
}

/** @param {StoreName} name @param {Options} options @returns {Promise<Row[]>} */
async function sessions(name, { quick, progress }) {
  // A million sessions in memory would be two gigabytes of heap.
  const most = quick ? 50_000 : name === "memory" ? 100_000 : 1_000_000;
  const counts = { one: 1, some: 10_000, most };
  /** @type {Record<string, import("./measure.mjs").Variant>} */
  const variants = {};
  /** @param {[string, number][]} left @returns {Promise<Record<string, Measured>>} */
  const build = async ([head, ...rest]) => {
    if (!head) return interleave(variants, { rounds: quick ? 15 : 44, warmup: 4 });
    const [key, count] = head;
    return withStore(name, async (store) => {
      progress(`sessions, ${name}: filling ${count}`);
      const pick = picker(await fill(store, count));
      variants[`${key} hot`] = randomCalls(store, pick, true);
      variants[`${key} cold`] = randomCalls(store, pick, false);
      return build(rest);
    });
  };
  const measured = await build(Object.entries(counts));
  return ["hot", "cold"].flatMap((kind) => {
    const how = kind === "hot" ? "in the cache" : "loaded first";
    const of = (/** @type {keyof typeof counts} */ key) => named(measured, `${key} ${kind}`);
    const compared = { to: "10,000 sessions", reference: of("some") };
    return [
      costRow(`${name}: 1 session, ${how}`, of("one"), compared),
      costRow(`${name}: 10,000 sessions, ${how}`, of("some")),
      costRow(`${name}: ${most.toLocaleString("en")} sessions, ${how}`, of("most"), {
        ...compared,
        bar: { atMost: 2 },
      }),
    ];
  });
}

/** @param {Record<string, Measured>} measured @param {string} name */
function named(measured, name) {
  const found = measured[name];
  if (!found) throw new Error(`${name} was not measured`);
  return found;
}

/**
 * Picks sessions at random, none a second time before all were picked: a session that was called more has a longer log
 * to load, which would be a matter of the history.
 *
 * @param {string[]} ids
 */
function picker(ids) {
  const order = shuffled(ids);
  let picked = 0;
  return () => String(order[picked++ % order.length]);
}

/** Calls to picked sessions, each of them new to the cache of the process, or each in it already. */
function randomCalls(/** @type {Store} */ store, /** @type {() => string} */ pick, /** @type {boolean} */ cached) {
  const engine = createSessions({ environment: counter, store, cache: { sessions: cached ? spread : 0 } });
  /** @type {string[]} */
  let next = [];
  return {
    prepare: async () => {
      next = Array.from({ length: spread }, pick);
      if (cached) for (const id of new Set(next)) await engine.state(id);
    },
    run: async () => {
      for (const id of next) await engine.call(id, "add", { by: 1 });
      return spread;
    },
  };
}

/** Fills a store with sessions that were opened and called once, by appending copies of the log of one. */
async function fill(/** @type {Store} */ store, /** @type {number} */ count) {
  const engine = createSessions({ environment: counter, store });
  const { session, environment, opened } = await engine.open({ task: { start: 0 } });
  await engine.call(session, "add", { by: 1 });
  const log = (await store.read(session, 0)) ?? [];
  const entries = log.map(({ body }) => ({ body, at: opened }));
  const ids = [session];
  /** @type {Promise<unknown>[]} */
  let group = [];
  for (let index = 1; index < count; index++) {
    // Spread over the index as real ids are, which are random.
    const id = `${(Math.imul(index, 0x9e3779b1) >>> 0).toString(36)}-${index.toString(36).padStart(14, "0")}`;
    ids.push(id);
    group.push(
      store.append({
        session: id,
        version: 0,
        entries: /** @type {any} */ (entries),
        heading: { environment, opened },
      }),
    );
    if (group.length < 2000) continue;
    await appended(group);
    group = [];
  }
  await appended(group);
  return ids;
}

/** @param {Promise<unknown>[]} group */
async function appended(group) {
  const refused = (await Promise.all(group)).filter((result) => result !== "ok");
  if (refused.length > 0) throw new Error(`the store refused sessions: ${refused[0]}`);
}

/** A store that counts the snapshots given to it. @param {Store} store */
function counting(store) {
  let snapshots = 0;
  return {
    /** @type {Store} */
    store: {
      ...store,
      append: (commit) => {
        if (commit.snapshot !== undefined) snapshots++;
        return store.append(commit);
      },
    },
    /** How many since it was last asked. */
    since: () => {
      const count = snapshots;
      snapshots = 0;
      return count;
    },
  };
}

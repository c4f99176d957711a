// The cost of an agent's turn with a longer history, of `import "holdfast"`, and of an install.
import { execFile } from "node:child_process";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createSessions, defineAgent, run as runAgent } from "holdfast";
import { interleave, quantile, shuffled } from "./measure.mjs";
import { withStore } from "./open-store.mjs";
import { costRow, judged } from "./table.mjs";

/** @typedef {import("holdfast").Store} Store */
/** @typedef {import("./open-store.mjs").StoreName} StoreName */
/** @typedef {import("./table.mjs").Row} Row */
/** @typedef {import("./table.mjs").Options} Options */

const execute = promisify(execFile);
const root = fileURLToPath(new URL("..", import.meta.url));

/** The reference's time for such a turn with 10,000 events, in milliseconds, on a machine of this kind. */
const reference = { memory: 382, "SQLite process": 1749, "SQLite power": Number.NaN };

/** Turns in one sample. */
const turns = 20;

const notes = [
  "A turn is a message, one write in beforeAgent and an answer of a model that takes no time: four events. Lengths are those",
  "of a session before its turns; it grows by at most a tenth, then a new one is taken. The first turn in a process reads",
  "the conversation, the others have it in hand. The reference: 382 ms in memory and 1,749 ms on SQLite for a turn with",
  "10,000 events; 1.8 s, 142 MB and 157 MB for its import and install.",
].join("\n");

/** @param {Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run(options) {
  /** @type {Row[]} */
  const rows = [];
  for (const name of /** @type {StoreName[]} */ (["memory", "SQLite process"])) {
    options.progress(`turns, ${name}`);
    rows.push(...(await withStore(name, (store) => history(name, store, options))));
  }
  options.progress("import");
  rows.push(...(await imported(options)));
  options.progress("install");
  rows.push(await installed());
  return { rows, notes: [notes] };
}

const agent = defineAgent({
  name: "bench",
  instruction: "Answer.",
  model: {
    name: "instant",
    respond: () =>
      Promise.resolve({
        status: "completed",
        output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "An answer." }] }],
      }),
  },
  callbacks: { beforeAgent: ({ state }) => void (state["turns"] = (state["turns"] ?? 0) + 1) },
});

/** @param {StoreName} name @param {Store} store @param {Options} options @returns {Promise<Row[]>} */
async function history(name, store, { quick }) {
  const sessions = createSessions({ app: "bench", store });
  const turn = async (/** @type {string} */ session, engine = sessions) => {
    let events = 0;
    for await (const _ of runAgent(agent, { sessions: engine, session, message: "A question." })) events++;
    return events;
  };
  const grown = async (/** @type {number} */ length) => {
    const { session } = await sessions.open();
    for (let events = 1; events < length;) events += await turn(session);
    return session;
  };
  /** Turns of sessions of about this length. @param {number} length @param {number} count */
  const ofLength = (length, count) => {
    /** @type {string[]} */
    let ids = [];
    let left = 0;
    return {
      prepare: async () => {
        if (left < turns) {
          ids = [];
          while (ids.length < count) ids.push(await grown(length));
          left = count * Math.max(1, Math.floor(length / 40));
        }
        left -= turns;
      },
      run: async () => {
        for (let done = 0; done < turns; done++) await turn(/** @type {string} */ (ids[done % ids.length]));
        return turns;
      },
    };
  };
  const long = await grown(10_000);
  /** The first turn in a process, which reads the whole conversation. */
  const first = {
    run: async () => {
      await turn(long, createSessions({ app: "bench", store }));
      return 1;
    },
  };
  const measured = await interleave(
    { first, few: ofLength(10, turns), some: ofLength(1_000, 2), many: ofLength(10_000, 2) },
    { rounds: quick ? 15 : 101, warmup: quick ? 5 : 20 },
  );
  const compared = { to: "10 events", reference: measured.few };
  const cheaper = (reference[name] * 1000) / measured.many.cost;
  return [
    costRow(`a turn on ${name}, 10 events`, measured.few),
    costRow(`a turn on ${name}, 1,000 events`, measured.some, { ...compared, bar: { atMost: 1.5 } }),
    costRow(`a turn on ${name}, 10,000 events`, measured.many, { ...compared, bar: { atMost: 1.5 } }),
    costRow("the first in a process, 10,000 events", measured.first, compared),
    judged({ what: "how many times cheaper than the reference", value: cheaper, unit: "x" }, { atLeast: 100 }),
  ];
}

/**
 * Measures a process that imports the package, and one that does not. @param {Options} options @returns
 * {Promise<Row[]>}
 */
async function imported({ quick }) {
  const tell = "process.stdout.write(String(process.memoryUsage().rss));";
  const programs = { bare: tell, holdfast: `await import("holdfast"); ${tell}` };
  /** @type {Record<keyof typeof programs, { ms: number[], bytes: number[] }>} */
  const seen = { bare: { ms: [], bytes: [] }, holdfast: { ms: [], bytes: [] } };
  for (let round = -2; round < (quick ? 5 : 21); round++) {
    for (const name of shuffled(/** @type {(keyof typeof programs)[]} */ (Object.keys(programs)))) {
      const start = performance.now();
      const { stdout } = await execute(process.execPath, ["--input-type=module", "-e", programs[name]], { cwd: root });
      if (round < 0) continue;
      seen[name].ms.push(performance.now() - start);
      seen[name].bytes.push(Number(stdout));
    }
  }
  const more = (/** @type {"ms" | "bytes"} */ what) =>
    quantile(seen.holdfast[what], 0.5) - quantile(seen.bare[what], 0.5);
  return [
    judged({ what: 'import "holdfast", beyond bare node', value: more("ms"), unit: "ms" }, { atMost: 150 }),
    judged({ what: "its memory, beyond bare node", value: more("bytes") / 1e6, unit: "MB" }, { atMost: 40 }),
  ];
}

/** The bytes of the package and of its dependencies, without optional peers. @returns {Promise<Row>} */
async function installed() {
  const omit = ["--omit=dev", "--omit=optional", "--omit=peer"];
  const { stdout } = await execute("npm", ["ls", "--all", "--parseable", ...omit], { cwd: root });
  const folders = stdout.trim().split("\n").slice(1);
  const packed = await execute("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root });
  let bytes = /** @type {{ unpackedSize: number }[]} */ (JSON.parse(packed.stdout))[0]?.unpackedSize ?? Number.NaN;
  for (const folder of folders) bytes += await sizeOf(folder);
  const what = `an install with its ${folders.length} dependencies`;
  return judged({ what, value: bytes / 1e6, unit: "MB" }, { atMost: 60 });
}

/** Nested packages are counted separately. @param {string} folder @returns {Promise<number>} */
async function sizeOf(folder) {
  let bytes = 0;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += entry.name === "node_modules" ? 0 : await sizeOf(path);
    else bytes += (await lstat(path)).size;
  }
  return bytes;
}

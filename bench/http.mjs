// How much CPU does a request cost the server, beside a bare node:http server that does the same work without its checks?
import { execFile, fork } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { bareServer, groupWriter } from "./bare-http.mjs";
import { connection, increment, verify } from "./connection.mjs";
import { quantile, shuffled } from "./measure.mjs";
import { judged } from "./table.mjs";

const connections = 64;
const sessions = 200;
const kinds = /** @type {const} */ (["bare", "memory", "bare SQLite", "SQLite process"]);
/** @typedef {typeof kinds[number]} Kind */
/** Calls by wrk are compared with those of bare servers; seeds and the rest with calls by the same client. */
/** @typedef {"wrk" | "call" | "seed" | "verify" | "episode"} Work */

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  const size = quick ? { seconds: 1, each: 5, rounds: 3 } : { seconds: 3, each: 100, rounds: 7 };
  /** @type {Map<string, number[]>} */
  const costs = new Map();
  for (let round = 0; round < size.rounds; round++) {
    for (const kind of shuffled([...kinds])) {
      progress(`round ${round + 1} of ${size.rounds}: ${kind}`);
      await measure(kind, size, costs);
    }
  }
  return { rows: rowsOf(costs), notes };
}

/**
 * Measures a server that was just started: one in memory grows with every call, and collecting its garbage takes ever longer.
 *
 * @param {Kind} kind @param {{ seconds: number, each: number }} size @param {Map<string, number[]>} costs
 */
async function measure(kind, size, costs) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-http-"));
  const server = await started(kind, folder);
  try {
    for (const work of server.works) {
      // The first run compiles.
      await (
        await server.prepare(work, { ...size, seconds: 1 })
      )();
      const run = await server.prepare(work, size);
      const before = await server.cpu();
      const count = await run();
      addTo(costs, `${kind} ${work}`, ((await server.cpu()) - before) / count);
    }
  } finally {
    server.end();
    await rm(folder, { recursive: true, force: true });
  }
}

const notes = [
  `Calls come from wrk: ${connections} connections over ${sessions} sessions, POST /increment_counter with the session's cookie.`,
  "The other rows come from a client in the bench, over as many connections. An episode is a seed, five calls and verify.",
];

/** @param {Map<string, number[]>} costs */
function rowsOf(costs) {
  const rate = (/** @type {string} */ what, /** @type {Kind} */ kind) => {
    const samples = costs.get(`${kind} wrk`) ?? [];
    const [low, high] = [1e6 / quantile(samples, 0.75), 1e6 / quantile(samples, 0.25)];
    return { what, value: 1e6 / quantile(samples, 0.5), unit: "requests/CPU-s", low, high };
  };
  const beside = (/** @type {Kind} */ kind, /** @type {Kind} */ bare, /** @type {number} */ atLeast) => {
    const ratio = ratioOf(costs, `${bare} wrk`, `${kind} wrk`);
    return judged({ ...rate(`holdfast on ${kind}`, kind), ratio, to: bare }, { atLeast });
  };
  const cost = (/** @type {Kind} */ kind, /** @type {Work} */ work, /** @type {number | undefined} */ atMost) => {
    const samples = costs.get(`${kind} ${work}`) ?? [];
    const measured = { what: `${work} on ${kind}`, value: quantile(samples, 0.5), unit: "µs of CPU" };
    const quartiles = { low: quantile(samples, 0.25), high: quantile(samples, 0.75) };
    const ratio = ratioOf(costs, `${kind} ${work}`, `${kind} call`);
    return judged({ ...measured, ...quartiles, ratio, to: "a call" }, atMost === undefined ? undefined : { atMost });
  };
  return [
    rate("bare node:http", "bare"),
    beside("memory", "bare", 0.75),
    rate("bare node:http and SQLite in groups", "bare SQLite"),
    beside("SQLite process", "bare SQLite", 0.85),
    cost("memory", "call", undefined),
    cost("memory", "seed", 2),
    cost("memory", "verify", 2),
    cost("memory", "episode", undefined),
    cost("SQLite process", "call", undefined),
    cost("SQLite process", "seed", 2),
    cost("SQLite process", "verify", 2),
    cost("SQLite process", "episode", undefined),
  ];
}

/** The median of the ratios of single rounds. @param {Map<string, number[]>} costs @param {string} of @param {string} to */
function ratioOf(costs, of, to) {
  const references = costs.get(to) ?? [];
  return quantile(
    (costs.get(of) ?? []).map((cost, round) => cost / (references[round] ?? Number.NaN)),
    0.5,
  );
}

/** @param {Map<string, number[]>} lists @param {string} key @param {number} value */
function addTo(lists, key, value) {
  lists.set(key, [...(lists.get(key) ?? []), value]);
}

/** Starts a server in a process of its own. @param {Kind} kind @param {string} folder */
async function started(kind, folder) {
  const child = fork(fileURLToPath(import.meta.url), [kind, folder]);
  /** @type {() => Promise<{ port?: number, cpu?: number }>} */
  const answer = () =>
    new Promise((resolve, reject) => {
      const died = (/** @type {number} */ code) => reject(new Error(`the server "${kind}" ended with ${code}`));
      child.once("exit", died);
      child.once("message", (message) => {
        child.off("exit", died);
        resolve(/** @type {object} */ (message));
      });
    });
  const { port = 0 } = await answer();
  const clients = Array.from({ length: connections }, () => connection(port));
  const script = await wrkScript(port, join(folder, `${kind}.lua`));
  /** @type {Work[]} */
  const works = kind.startsWith("bare") ? ["wrk"] : ["wrk", "call", "seed", "verify", "episode"];
  return {
    kind,
    works,
    /** Gives the function that does the work, and says how often. @param {Work} work @param {{ seconds: number, each: number }} size */
    prepare: async (work, { seconds, each }) =>
      work === "wrk" ? () => callByWrk(port, script, seconds) : byClients(clients, work, each),
    /** Microseconds of CPU that the server has used. */
    cpu: async () => {
      const asked = answer();
      child.send("cpu");
      const { cpu = 0 } = await asked;
      return cpu;
    },
    end: () => {
      for (const { socket } of clients) socket.destroy();
      child.disconnect();
    },
  };
}

/** Seeds sessions, and writes the script by which wrk calls their tool one after the other. @param {number} port @param {string} file */
async function wrkScript(port, file) {
  const { socket, seed } = connection(port);
  const cookies = [];
  while (cookies.length < sessions) cookies.push((await seed()).slice("cookie: ".length).trimEnd());
  socket.destroy();
  const list = cookies.map((cookie) => JSON.stringify(cookie)).join(",");
  const request = `wrk.format("POST", "/increment_counter", headers, '{"count":1}')`;
  await writeFile(
    file,
    `local cookies = {${list}}
local headers = { ["content-type"] = "application/json" }
local at = 0
request = function()
  at = at + 1
  headers["cookie"] = cookies[at % ${sessions} + 1]
  return ${request}
end
`,
  );
  return file;
}

/** @param {number} port @param {string} script @param {number} seconds */
async function callByWrk(port, script, seconds) {
  const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "-s", script, `http://127.0.0.1:${port}`];
  const { stdout } = await promisify(execFile)("wrk", args).catch((/** @type {NodeJS.ErrnoException} */ thrown) => {
    throw thrown.code === "ENOENT" ? new Error("the bench needs wrk: apt-get install wrk") : thrown;
  });
  const failed = /Non-2xx[^\n]*|Socket errors[^\n]*/.exec(stdout);
  if (failed) throw new Error(`wrk saw failures: ${failed[0]}`);
  return Number(/(\d+) requests in/.exec(stdout)?.[1]);
}

/** @param {ReturnType<typeof connection>[]} clients @param {Work} work @param {number} each */
async function byClients(clients, work, each) {
  /** @type {Record<string, (client: ReturnType<typeof connection>, seeded: string) => Promise<unknown>>} */
  const works = {
    call: ({ send }, seeded) => send(increment(seeded)),
    seed: ({ seed }) => seed(),
    verify: ({ send }, seeded) => send(verify(seeded)),
    episode: async ({ seed, send }) => {
      const cookie = await seed();
      for (let call = 0; call < 5; call++) await send(increment(cookie));
      await send(verify(cookie));
    },
  };
  /** @param {(client: ReturnType<typeof connection>, at: number) => Promise<unknown>} once */
  const all = (once) =>
    Promise.all(
      clients.map(async (client) => {
        for (let at = 0; at < each; at++) await once(client, at);
      }),
    );
  /** @type {Map<object, string[]>} */
  const seeded = new Map(clients.map((client) => [client, []]));
  if (work === "verify" || work === "call") await all(async (client) => seeded.get(client)?.push(await client.seed()));
  return async () => {
    await all((client, at) => /** @type {any} */ (works[work])(client, seeded.get(client)?.[at]));
    return clients.length * each;
  };
}

/** What the child does: serves, says where, and how much CPU it has used when asked. @param {Kind} kind @param {string} folder */
async function serveAs(kind, folder) {
  const left = new Promise((resolve) => process.once("disconnect", resolve));
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
  if (kind === "bare" || kind === "bare SQLite") {
    const write = kind === "bare" ? undefined : await groupWriter(join(folder, "bare.db"));
    process.send?.({ port: await listening(bareServer(write)) });
    await left;
  } else {
    const [{ withStore }, { served }] = await Promise.all([import("./open-store.mjs"), import("./served.mjs")]);
    await withStore(kind, async (store) => {
      const serving = await served(store);
      process.send?.({ port: Number(new URL(serving.url).port) });
      await left;
      await serving.close();
    });
  }
  process.exit();
}

/** @param {import("node:http").Server} server @returns {Promise<number>} */
function listening(server) {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(/** @type {import("node:net").AddressInfo} */ (server.address()).port));
  });
}

const [, , asked, folder] = process.argv;
const kind = kinds.find((kind) => kind === asked);
if (process.send && kind && folder) await serveAs(kind, folder);

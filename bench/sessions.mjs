// Does a request take longer when the server has 100,000 open sessions instead of 100? And does it count them right?
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { connection, increment } from "./connection.mjs";
import { shuffled } from "./measure.mjs";
import { judged } from "./table.mjs";

const few = 100;
/** Connections that open sessions at once. */
const opening = 64;

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  const many = quick ? 10_000 : 100_000;
  const size = quick ? { calls: 1_000, rounds: 15, warmup: 5 } : { calls: 2_000, rounds: 41, warmup: 10 };
  /** @type {Awaited<ReturnType<typeof started>>[]} */
  const servers = [];
  try {
    for (const count of [few, many]) {
      progress(`opening ${count} sessions`);
      servers.push(await started(count));
    }
    for (let round = -size.warmup; round < size.rounds; round++) {
      progress(`round ${round + 1} of ${size.rounds}`);
      for (const server of shuffled(servers)) {
        const times = await server.callAtRandom(size.calls);
        if (round < 0) continue;
        server.middle.push(quantile(times, 0.5));
        server.tail.push(quantile(times, 0.99));
      }
    }
    for (const server of servers) await server.assertCount();
  } finally {
    for (const server of servers) server.end();
  }
  const [small, large] = /** @type {[typeof servers[number], typeof servers[number]]} */ (servers);
  const to = `${few} sessions`;
  return {
    rows: [
      row(`99th percentile, ${few} sessions`, small.tail),
      judged(
        { ...row(`99th percentile, ${grouped(many)} sessions`, large.tail), ...ratio(large.tail, small.tail), to },
        { atMost: 2 },
      ),
      row(`median, ${few} sessions`, small.middle),
      { ...row(`median, ${grouped(many)} sessions`, large.middle), ...ratio(large.middle, small.middle), to },
    ],
    notes: [
      `Each sample is ${grouped(size.calls)} calls, one at a time on one connection, each to a session at random; the rows give the median of ${size.rounds} samples.`,
      `/metrics counted ${few} and ${grouped(many)} open sessions, before the calls and after them.`,
    ],
  };
}

/** @param {string} what @param {number[]} samples in milliseconds */
function row(what, samples) {
  const [low = 0, value = 0, high = 0] = [0.25, 0.5, 0.75].map((share) => quantile(samples, share) * 1000);
  return { what, value, unit: "µs", low, high };
}

/** @param {number[]} samples @param {number[]} reference */
const ratio = (samples, reference) => ({ ratio: quantile(samples, 0.5) / quantile(reference, 0.5) });

/** @param {number[]} values @param {number} share */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN;
}

/** @param {number} count */
const grouped = (count) => count.toLocaleString("en");

/** A server in a separate process, with `count` open sessions. @param {number} count */
async function started(count) {
  const child = fork(fileURLToPath(import.meta.url), ["serve"]);
  const port = await new Promise((/** @type {(port: number) => void} */ resolve, reject) => {
    child.once("message", (message) => resolve(Number(message)));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  const calls = (await opened(port, count)).map(increment);
  // One call at a time: concurrent calls would measure how long they wait for each other.
  const caller = connection(port);
  const assertCount = async () => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const [, found] = /^holdfast_sessions_open\{environment="counter"\} (\d+)$/m.exec(text) ?? [];
    if (Number(found) !== count)
      throw new Error(`/metrics says that ${found} sessions are open, and there are ${count}`);
  };
  await assertCount();
  return {
    /** Milliseconds of each sample. */
    middle: /** @type {number[]} */ ([]),
    tail: /** @type {number[]} */ ([]),
    assertCount,
    /** How many milliseconds each call took. @param {number} size */
    callAtRandom: async (size) => {
      const times = [];
      for (let at = 0; at < size; at++) {
        const call = calls[Math.floor(Math.random() * count)] ?? "";
        const start = performance.now();
        await caller.send(call);
        times.push(performance.now() - start);
      }
      return times;
    },
    end: () => {
      caller.socket.destroy();
      child.disconnect();
    },
  };
}

/** Opens sessions on many connections. Returns their cookies. @param {number} port @param {number} count */
async function opened(port, count) {
  /** @type {string[]} */
  const cookies = [];
  let left = count;
  const openInTurn = async () => {
    const { socket, seed } = connection(port);
    while (left-- > 0) cookies.push(await seed());
    socket.destroy();
  };
  await Promise.all(Array.from({ length: opening }, openInTurn));
  return cookies;
}

/** The child process: serves, and reports its port. */
async function serveOnMemory() {
  const left = new Promise((resolve) => process.once("disconnect", resolve));
  const [{ withStore }, { served }] = await Promise.all([import("./open-store.mjs"), import("./served.mjs")]);
  await withStore("memory", async (store) => {
    const serving = await served(store);
    process.send?.(Number(new URL(serving.url).port));
    await left;
    await serving.close();
  });
  process.exit();
}

if (process.send && process.argv[2] === "serve") await serveOnMemory();

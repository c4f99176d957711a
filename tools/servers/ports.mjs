// Ports for servers of tests and benches. A server keeps its port when it restarts.
import { createServer } from "node:net";

const first = 11_000;
/** Parallel test workers pick from different ranges, because a free port may be taken a moment later. */
const share = 2_500;
const worker = Number(process.env.VITEST_POOL_ID ?? 0) % 4;

/** @type {Set<number>} */
const given = new Set();

/**
 * Finds a free port below the range that the system hands out by itself.
 * @param {number} [beside] how far above it a second port must be free too
 * @returns {Promise<number>}
 */
export async function freePort(beside = 0) {
  for (;;) {
    const port = first + worker * share + Math.floor(Math.random() * share);
    const wanted = beside === 0 ? [port] : [port, port + beside];
    if (wanted.some((each) => given.has(each))) continue;
    if (!(await Promise.all(wanted.map(isFree))).every(Boolean)) continue;
    for (const each of wanted) given.add(each);
    return port;
  }
}

/** @param {number} port @returns {Promise<boolean>} */
function isFree(port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

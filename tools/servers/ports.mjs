// Ports for servers of tests and benches, which stay theirs while they are restarted.
import { createServer } from "node:net";

const first = 11_000;
/** Workers that run tests beside each other pick from different ones: one that is free may be taken a moment later. */
const share = 2_500;
const worker = Number(process.env.VITEST_POOL_ID ?? 0) % 4;

/** @type {Set<number>} */
const given = new Set();

/**
 * A port that nobody has, below those that the system hands out by itself.
 * @param {number} [beside] how far above it a second one has to be free too
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

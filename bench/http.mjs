// How many requests per CPU-second does the server take, beside a bare node:http server that does the same Map work?
import { fork } from "node:child_process";
import { createHmac, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { connection, increment } from "./connection.mjs";
import { shuffled } from "./measure.mjs";
import { judged } from "./table.mjs";

const connections = 64;
const kinds = /** @type {const} */ (["bare", "memory", "SQLite process"]);
/** @typedef {typeof kinds[number]} Kind */

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  const size = quick ? { each: 50, rounds: 5, warmup: 3 } : { each: 100, rounds: 15, warmup: 8 };
  /** @type {Map<Kind, number[]>} */
  const costs = new Map(kinds.map((kind) => [kind, []]));
  /** @type {Awaited<ReturnType<typeof started>>[]} */
  const servers = [];
  try {
    for (const kind of kinds) servers.push(await started(kind));
    for (let round = -size.warmup; round < size.rounds; round++) {
      progress(`round ${round + 1} of ${size.rounds}`);
      for (const server of shuffled(servers)) {
        const before = await server.cpu();
        await Promise.all(server.clients.map((client) => client.callInTurn(size.each)));
        const cost = ((await server.cpu()) - before) / (connections * size.each);
        if (round >= 0) costs.get(server.kind)?.push(cost);
      }
    }
  } finally {
    for (const server of servers) server.end();
  }
  const reference = quantile(costs.get("bare") ?? [], 0.5);
  const row = (/** @type {string} */ what, /** @type {Kind} */ kind, /** @type {number | undefined} */ atLeast) => {
    const samples = costs.get(kind) ?? [];
    const value = 1e6 / quantile(samples, 0.5);
    const [low, high] = [1e6 / quantile(samples, 0.75), 1e6 / quantile(samples, 0.25)];
    const measured = { what, value, unit: "requests/CPU-s", low, high };
    if (atLeast === undefined) return measured;
    return judged({ ...measured, ratio: (value * reference) / 1e6, to: "bare node:http" }, { atLeast });
  };
  return {
    rows: [
      row("bare node:http", "bare", undefined),
      row("holdfast on memory", "memory", 0.65),
      row("holdfast on SQLite process", "SQLite process", 0.5),
    ],
    notes: [
      `${connections} connections, each with one POST /increment_counter in flight at all times, with its session's cookie.`,
    ],
  };
}

/** @param {number[]} values @param {number} share */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? Number.NaN;
}

/** A server in a process of its own, and clients that have a session each. @param {Kind} kind */
async function started(kind) {
  const child = fork(fileURLToPath(import.meta.url), [kind]);
  /** @type {() => Promise<{ port?: number, cpu?: number }>} */
  const answer = () =>
    new Promise((resolve, reject) => {
      child.once("message", (message) => resolve(/** @type {object} */ (message)));
      child.once("exit", (code) => reject(new Error(`the server "${kind}" ended with ${code}`)));
    });
  const { port = 0 } = await answer();
  child.removeAllListeners("exit");
  const clients = [];
  while (clients.length < connections) clients.push(await client(port));
  return {
    kind,
    clients,
    /** Microseconds of CPU that the server has used. */
    cpu: async () => {
      const asked = answer();
      child.send("cpu");
      const { cpu = 0 } = await asked;
      child.removeAllListeners("exit");
      return cpu;
    },
    end: () => {
      for (const { socket } of clients) socket.destroy();
      child.disconnect();
    },
  };
}

/** A connection with a session of its own. @param {number} port */
async function client(port) {
  const { socket, send, seed } = connection(port);
  const call = increment(await seed());
  const callInTurn = async (/** @type {number} */ count) => {
    for (let at = 0; at < count; at++) await send(call);
  };
  return { socket, callInTurn };
}

/** The least that a server with sessions can do: the body, the signature once for each new token, a Map. */
function bareServer() {
  const key = randomBytes(32);
  const signed = (/** @type {string} */ id) => `${id}.${createHmac("sha256", key).update(id).digest("base64url")}`;
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @type {Map<string, { count: number }>} */
  const states = new Map();
  const handled = (
    /** @type {string} */ path,
    /** @type {string} */ token,
    /** @type {Record<string, number>} */ body,
  ) => {
    let id = known.get(token);
    if (id === undefined) {
      const [name = ""] = token.split(".");
      id = signed(name) === token ? name : randomBytes(16).toString("base64url");
      known.set(signed(id), id);
    }
    const state = states.get(id) ?? { count: 0 };
    if (path === "/seed_session") state.count = body["initial_count"] ?? 0;
    else state.count += body["count"] ?? 0;
    states.set(id, state);
    return { token: known.has(token) ? token : signed(id), output: path === "/seed_session" ? {} : { success: true } };
  };
  return createServer((request, response) => {
    /** @type {Buffer[]} */
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      const sent = /(?:^|; )session=([^;]*)/.exec(request.headers.cookie ?? "")?.[1] ?? "";
      const { token, output } = handled(request.url ?? "", sent, JSON.parse(Buffer.concat(chunks).toString()));
      const text = JSON.stringify(output);
      response.writeHead(200, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
        "set-cookie": `session=${token}; Path=/; HttpOnly`,
      });
      response.end(text);
    });
  });
}

/** What the child does: serves, says where, and how much CPU it has used when asked. @param {Kind} kind */
async function serveAs(kind) {
  const left = new Promise((resolve) => process.once("disconnect", resolve));
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
  if (kind === "bare") {
    process.send?.({ port: await listening(bareServer()) });
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

const kind = kinds.find((kind) => kind === process.argv[2]);
if (process.send && kind) await serveAs(kind);

// What does a call over MCP cost the server, beside the same call over the gym protocol and beside a server of the official SDK?
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { memoryStore } from "holdfast";
import { z } from "zod";
import { connection, increment } from "./connection.mjs";
import { quantile, shuffled } from "./measure.mjs";
import { served } from "./served.mjs";
import { judged } from "./table.mjs";

const connections = 8;
const kinds = /** @type {const} */ (["gym", "MCP", "MCP stateless", "SDK"]);
/** @typedef {typeof kinds[number]} Kind */
const modern = "2026-07-28";

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  const size = quick ? { each: 1_000, rounds: 3 } : { each: 3_000, rounds: 9 };
  /** @type {Map<Kind, number[]>} */
  const costs = new Map(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < size.rounds; round++) {
    for (const kind of shuffled([...kinds])) {
      progress(`round ${round + 1} of ${size.rounds}: ${kind}`);
      costs.get(kind)?.push(await measure(kind, size.each));
    }
  }
  /** The median of the ratios of single rounds, as rates. @param {Kind} kind @param {Kind} to */
  const ratio = (kind, to) =>
    quantile(
      (costs.get(kind) ?? []).map((cost, at) => (costs.get(to)?.[at] ?? Number.NaN) / cost),
      0.5,
    );
  /** @param {string} what @param {Kind} kind */
  const rate = (what, kind) => {
    const samples = costs.get(kind) ?? [];
    const [low, high] = [1e6 / quantile(samples, 0.75), 1e6 / quantile(samples, 0.25)];
    return { what, value: 1e6 / quantile(samples, 0.5), unit: "calls/CPU-s", low, high };
  };
  const ofMcp = (/** @type {string} */ what, /** @type {Kind} */ kind) => [
    judged({ ...rate(what, kind), ratio: ratio(kind, "gym"), to: "gym" }, { atLeast: 0.8 }),
    judged({ ...rate(what, kind), ratio: ratio(kind, "SDK"), to: "SDK" }, { atLeast: 4 }),
  ];
  return {
    rows: [
      rate("gym protocol", "gym"),
      rate("server of the SDK, first line, JSON", "SDK"),
      ...ofMcp("MCP with initialize", "MCP"),
      ...ofMcp("MCP, stateless", "MCP stateless"),
    ],
    notes: [`One tools/call with arguments per request, ${connections} connections, each with a session of its own.`],
  };
}

/** Returns the microseconds of CPU that a call costs the server. @param {Kind} kind @param {number} each */
async function measure(kind, each) {
  const child = fork(fileURLToPath(import.meta.url), [kind]);
  /** @type {() => Promise<{ port?: number, cpu?: number }>} */
  const answer = () =>
    new Promise((resolve) => child.once("message", (message) => resolve(/** @type {object} */ (message))));
  const cpu = async () => {
    const asked = answer();
    child.send("cpu");
    return (await asked).cpu ?? 0;
  };
  try {
    const { port = 0 } = await answer();
    const clients = Array.from({ length: connections }, () => connection(port));
    const requests = await Promise.all(clients.map((client) => requestOf(kind, client)));
    const calls = async (/** @type {number} */ count) => {
      await Promise.all(
        clients.map(async ({ send }, at) => {
          for (let call = 0; call < count; call++) await send(requests[at] ?? "");
        }),
      );
    };
    // The first calls compile.
    await calls(each);
    const before = await cpu();
    await calls(each);
    const cost = ((await cpu()) - before) / (each * connections);
    for (const { socket } of clients) socket.destroy();
    return cost;
  } finally {
    child.disconnect();
  }
}

/** Opens a session, and returns the request that calls its tool. @param {Kind} kind @param {ReturnType<typeof connection>} client */
async function requestOf(kind, { send, seed }) {
  if (kind === "gym") return increment(await seed());
  const call = { name: "increment_counter", arguments: { count: 1 } };
  if (kind === "SDK") {
    const opening = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1" } };
    const opened = await send(post("/mcp", "initialize", opening));
    const session = /mcp-session-id: (\S+)/i.exec(opened)?.[1] ?? "";
    return post("/mcp", "tools/call", call, `mcp-session-id: ${session}\r\nmcp-protocol-version: 2025-11-25\r\n`);
  }
  const seeded = await send(
    plain("/seed_session", JSON.stringify({ initial_count: 0, expected_count: 1 }), "accept: */*\r\n"),
  );
  const path = /"bound_url_path":"([^"]+)"/.exec(seeded)?.[1] ?? "";
  if (kind === "MCP") return post(path, "tools/call", call, "mcp-protocol-version: 2025-11-25\r\n");
  const meta = {
    "io.modelcontextprotocol/protocolVersion": modern,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  };
  const headers = `mcp-protocol-version: ${modern}\r\nmcp-method: tools/call\r\nmcp-name: ${call.name}\r\n`;
  return post(path, "tools/call", { ...call, _meta: meta }, headers);
}

/** @param {string} path @param {string} method @param {object} params @param {string} [headers] */
function post(path, method, params, headers = "") {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  return plain(path, body, `accept: application/json, text/event-stream\r\n${headers}`);
}

/** @param {string} path @param {string} body @param {string} headers */
function plain(path, body, headers) {
  const about = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${headers}${about}\r\n${body}`;
}

/** Serves a counter per session with the first line of the SDK. @returns {Promise<number>} */
async function serveSdk() {
  const { McpServer } = await import("@modelcontextprotocol/sdk/server/mcp.js");
  const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
  /** @type {Map<string, InstanceType<typeof StreamableHTTPServerTransport>>} */
  const transports = new Map();
  const opened = async () => {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: true,
      onsessioninitialized: (id) => void transports.set(id, transport),
    });
    const server = new McpServer({ name: "bench", version: "1" });
    let count = 0;
    const inputSchema = { count: z.number().int() };
    server.registerTool("increment_counter", { description: "Add to the counter.", inputSchema }, ({ count: by }) => {
      count += by;
      const output = { success: true };
      return { content: [{ type: "text", text: JSON.stringify(output) }], structuredContent: output };
    });
    await server.connect(/** @type {Parameters<typeof server.connect>[0]} */ (transport));
    return transport;
  };
  const server = createServer(async (request, response) => {
    const known = transports.get(String(request.headers["mcp-session-id"]));
    await (known ?? (await opened())).handleRequest(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  return /** @type {import("node:net").AddressInfo} */ (server.address()).port;
}

if (process.send) {
  const port = process.argv[2] === "SDK" ? await serveSdk() : Number(new URL((await served(memoryStore())).url).port);
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
  process.on("disconnect", () => process.exit());
  process.send({ port });
}

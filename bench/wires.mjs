// What does a call cost the server over each wire, beside the same call over the gym protocol?
import { fork } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { memoryStore } from "holdfast";
import { WebSocket } from "ws";
import { connection, increment } from "./connection.mjs";
import { quantile, shuffled } from "./measure.mjs";
import { served } from "./served.mjs";
import { judged } from "./table.mjs";

const connections = 8;
const kinds = /** @type {const} */ ([
  "gym",
  "gymnasium",
  "REST",
  "OpenEnv, HTTP step",
  "OpenEnv, tools/call",
  "OpenEnv, WebSocket",
  "ORS",
]);
/** @typedef {typeof kinds[number]} Kind */
/** Sends one call, and resolves when it is answered. @typedef {{ call: () => Promise<unknown>, end: () => void }} Caller */

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
  const rows = kinds.map((kind) => {
    const samples = costs.get(kind) ?? [];
    const [low, high] = [1e6 / quantile(samples, 0.75), 1e6 / quantile(samples, 0.25)];
    const rate = { what: kind, value: 1e6 / quantile(samples, 0.5), unit: "calls/CPU-s", low, high };
    if (kind === "gym") return rate;
    const ratios = samples.map((cost, at) => (costs.get("gym")?.[at] ?? Number.NaN) / cost);
    const compared = { ...rate, ratio: quantile(ratios, 0.5), to: "gym" };
    // ORS is at 0.64 to 0.71: its call is a stream of two events, and the first must leave before the tool runs. The two
    // writes take 44% of its CPU time.
    return judged(compared, { atLeast: 0.7 });
  });
  return {
    rows,
    notes: [`One tool call per request or message, ${connections} connections, each with its own session.`],
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
    const callers = await Promise.all(Array.from({ length: connections }, () => callerOf(kind, port)));
    const calls = async () => {
      await Promise.all(
        callers.map(async ({ call }) => {
          for (let count = 0; count < each; count++) await call();
        }),
      );
    };
    // The first calls compile.
    await calls();
    const before = await cpu();
    await calls();
    const cost = ((await cpu()) - before) / (each * connections);
    for (const { end } of callers) end();
    return cost;
  } finally {
    child.disconnect();
  }
}

const task = { initial_count: 0, expected_count: 1 };
const action = { type: "call_tool", tool_name: "increment_counter", arguments: { count: 1 } };

/** Opens a session over a wire. @param {Kind} kind @param {number} port @returns {Promise<Caller>} */
async function callerOf(kind, port) {
  if (kind === "OpenEnv, WebSocket") return socketOf(port);
  if (kind === "ORS") return orsOf(port);
  const { socket, send, seed } = connection(port);
  const caller = (/** @type {string} */ request) => ({ call: () => send(request), end: () => socket.destroy() });
  if (kind === "gym") return caller(increment(await seed()));
  if (kind === "gymnasium") {
    const item = { type: "function_call", call_id: "c", name: "increment_counter", arguments: '{"count":1}' };
    return caller(post("/step", { response: { output: [item] } }, await seed()));
  }
  if (kind === "REST") {
    const [session] = (await ask(port, "/v1/sessions", { task })).match(/(?<="session":")[^"]+/) ?? [""];
    return caller(post(`/v1/sessions/${session}/call`, { tool: "increment_counter", input: { count: 1 } }));
  }
  const [id] = (await ask(port, "/openenv/reset", task)).match(/(?<="session_id":")[^"]+/) ?? [""];
  if (kind === "OpenEnv, HTTP step") return caller(post(`/openenv/step?session_id=${id}`, { action }));
  const params = { session_id: id, name: "increment_counter", arguments: { count: 1 } };
  return caller(post("/openenv/mcp", { jsonrpc: "2.0", id: 1, method: "tools/call", params }));
}

/** @param {number} port @returns {Promise<Caller>} */
async function socketOf(port) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/openenv/ws`, { perMessageDeflate: false });
  await once(socket, "open");
  const send = async (/** @type {string} */ text) => {
    socket.send(text);
    const [data] = await once(socket, "message");
    if (!String(data).startsWith('{"type":"observation"')) throw new Error(String(data));
  };
  await send(JSON.stringify({ type: "reset", data: task }));
  const text = JSON.stringify({ type: "step", data: action });
  return { call: () => send(text), end: () => socket.terminate() };
}

/** @param {number} port @returns {Promise<Caller>} */
async function orsOf(port) {
  const created = await ask(port, "/ors/create_session", {});
  const id = /data: (\S+)/.exec(created)?.[1] ?? "";
  await ask(port, "/ors/create", { task_spec: task }, { "x-session-id": id });
  const request = post("/ors/call", { name: "increment_counter", input: { count: 1 } }, `x-session-id: ${id}\r\n`);
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay();
  let got = "";
  /** @type {() => void} */
  let done = () => undefined;
  socket.on("data", (/** @type {Buffer} */ chunk) => {
    got += chunk.toString("latin1");
    if (!got.endsWith("\r\n0\r\n\r\n")) return;
    if (!got.includes('{"ok":true')) throw new Error(got);
    got = "";
    done();
  });
  const call = () =>
    new Promise((resolve) => {
      done = () => resolve(undefined);
      socket.write(request);
    });
  return { call, end: () => socket.destroy() };
}

/** @param {number} port @param {string} path @param {object} body @param {{ [name: string]: string }} [headers] */
async function ask(port, path, body, headers = {}) {
  const sent = { "content-type": "application/json", ...headers };
  const reply = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: sent,
    body: JSON.stringify(body),
  });
  return reply.text();
}

/** Sends the headers of aiohttp. @param {string} path @param {object} content */
function post(path, content, headers = "") {
  const body = JSON.stringify(content);
  const agent = "accept: */*\r\naccept-encoding: gzip, deflate\r\nuser-agent: Python/3.12 aiohttp/3.11\r\n";
  const about = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${agent}${headers}${about}\r\n${body}`;
}

if (process.send) {
  const { url } = await served(memoryStore());
  process.on("message", () => {
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
  process.on("disconnect", () => process.exit());
  process.send({ port: Number(new URL(url).port) });
}

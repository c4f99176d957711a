// Bad requests and frames on every wire: the right error, no failure of the server, and no change of another session.
import { once } from "node:events";
import { Agent, request, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import fc from "fast-check";
import { createSessions, defineAgent, defineEnvironment, memoryStore, scriptedModel, tool } from "holdfast";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { z } from "zod";
import { serve, type Serving } from "../../src/server/serve.ts";
import { runs } from "../runs.ts";
import { until } from "../server/serving.ts";
import { spoiled } from "./bad-frames.ts";
import { openEnvClient, post, type Loose } from "./openenv-client.ts";
import { orsClient } from "./ors-client.ts";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ initial_count: z.number(), expected_count: z.number() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    increment_counter: tool({
      description: "Add.",
      input: z.object({ count: z.number().int() }),
      run: ({ state }, { count }) => ({ count: (state.count += count) }),
    }),
    speak: tool({
      description: "Count a text, and return it.",
      input: z.object({ length: z.number().int() }),
      run: ({ state }, { length }) => {
        state.count++;
        return "x".repeat(length);
      },
    }),
  },
  verify: ({ state, task }) => Number(state.count === task.expected_count),
});

const task = { initial_count: 1, expected_count: 3 };
const add = { name: "increment_counter", arguments: { count: 1 } };
const action = { type: "call_tool", tool_name: add.name, arguments: add.arguments, metadata: { request_id: "r" } };
const call = { type: "function_call", call_id: "c", name: add.name, arguments: '{"count":1}' };

/** A valid request of each wire. OWN is the sender's session. */
const valid: { [route: string]: object } = {
  "POST /openenv/reset": { seed: 1, episode_id: "e", ...task },
  "POST /openenv/reset?session_id=OWN": { ...task },
  "POST /openenv/step?session_id=OWN": { action, timeout_s: 5, request_id: "x" },
  "POST /openenv/step": { action: { type: "list_tools" } },
  "POST /openenv/mcp": { jsonrpc: "2.0", id: 1, method: "tools/call", params: { session_id: "OWN", ...add } },
  "POST /openenv/counter/task": { split: "train", index: 0 },
  "POST /ors/create_session": {},
  "POST /ors/create": { env_name: "counter", task_spec: task },
  "POST /ors/counter/call": { name: add.name, input: { count: 1 }, task_id: "t" },
  "POST /ors/call": { name: "submit", input: { response: "x" } },
  "POST /ors/counter/task_range": { split: "train", start: 0, stop: 1 },
  "POST /ors/delete": {},
  "POST /reset": { ...task, responses_create_params: { input: "x" } },
  "POST /step": { ...task, response: { output: [call, call] }, _ng_step_request_id: "s" },
  "POST /close": {},
  "POST /helper/v1/responses": { model: "helper", input: [{ role: "user", content: "x" }], metadata: { a: "b" } },
  "POST /helper/v1/chat/completions": { model: "helper", messages: [{ role: "user", content: "x" }], stream: false },
  "POST /helper/v1/a2a": {
    jsonrpc: "2.0",
    id: 1,
    method: "SendMessage",
    params: { message: { messageId: "m", role: "ROLE_USER", parts: [{ text: "x" }] } },
  },
  "POST /v1/adk/apps/helper/users/u/sessions": { sessionId: "s", state: { a: 1 } },
  "POST /v1/adk/run": {
    appName: "helper",
    userId: "u",
    sessionId: "s",
    newMessage: { role: "user", parts: [{ text: "x" }] },
    stateDelta: { a: 1 },
    streaming: false,
  },
};

const lines: string[] = [];
let serving: Serving;
const store = memoryStore();
const sockets = new Agent({ keepAlive: true, maxSockets: 16 });

beforeAll(async () => {
  const model = scriptedModel(() => "Hello.");
  serving = await serve({
    environments: [counter],
    agents: [defineAgent({ name: "helper", description: "Helps.", model })],
    store,
    port: 0,
    log: { destination: { write: (line) => void lines.push(line) } },
  });
});
afterAll(async () => {
  sockets.destroy();
  await serving.close();
});

/** Where the environment's wires are. */
const environment = (): string => `${serving.url}/counter`;

/** Sends bytes, and returns the status and the text. */
function send(route: string, body: string, headers: { [name: string]: string }) {
  const [method = "", path = ""] = route.split(" ");
  return new Promise<{ status: number; text: string; cookie: string | undefined }>((resolve, reject) => {
    const given = { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)), ...headers };
    const isAgents = path.startsWith("/helper/") || path.startsWith("/v1/adk/");
    const url = `${isAgents ? serving.url : environment()}${path}`;
    const sent = request(url, { method, agent: sockets, headers: given }, (reply) => {
      let text = "";
      reply.setEncoding("utf8");
      reply.on("data", (part: string) => (text += part));
      reply.on("end", () => {
        const [cookie] = reply.headers["set-cookie"]?.[0]?.split(";") ?? [];
        resolve({ status: reply.statusCode ?? 0, text, cookie });
      });
      reply.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** An open session over each wire, in an episode that nobody else may change. */
async function victims() {
  const opened = await post(`${environment()}/openenv/reset`, { ...task, initial_count: 2 });
  const own = opened.body.metadata.session_id as string;
  const seeded = await send("POST /reset", JSON.stringify({ ...task, initial_count: 2 }), {});
  const ors = orsClient(`${environment()}/ors`);
  const sid = await ors.createSession();
  await ors.json("POST", "/create", { task_spec: { ...task, initial_count: 2 } }, sid);
  return { id: own, cookie: seeded.cookie ?? "", sid };
}

/** Every victim adds one, and earns the reward: nobody else changed its session. */
async function expectUnchanged({ id, cookie, sid }: Awaited<ReturnType<typeof victims>>): Promise<void> {
  const step = await post(`${environment()}/openenv/step?session_id=${id}`, { action: { ...action, metadata: {} } });
  expect(step.text).toContain('"count":3');
  const done = await post(`${environment()}/openenv/step?session_id=${id}`, { action: { type: "submit" } });
  expect(done.body.reward).toBe(1);
  const stepped = await send("POST /step", JSON.stringify({ response: { output: [call] } }), { cookie });
  expect(stepped.text).toContain('\\"count\\":3');
  expect(JSON.parse((await send("POST /step", "{}", { cookie })).text)).toMatchObject({ reward: 1, terminated: true });
  const ors = orsClient(`${environment()}/ors`);
  expect((await ors.call(sid, add.name, { count: 1 })).result.output.blocks[0].text).toBe('{"count":3}');
  expect((await ors.call(sid, "submit", {})).result.output).toMatchObject({ reward: 1, finished: true });
}

const forged = "AAAA.BBBB.CCCC";

async function fuzzed(count: number): Promise<Map<string, number>> {
  const others = await victims();
  const own = await victims();
  const statuses = new Map<string, number>();
  const routes = Object.entries(valid);
  const requests = fc.constantFrom(...routes).chain(([route, body]) =>
    fc.record({
      route: fc.constant(route),
      body: spoiled(body),
      who: fc.constantFrom("own", "own", "none", "forged"),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(requests, { minLength: 20, maxLength: 20 }), async (batch) => {
      await Promise.all(
        batch.map(async ({ route, body, who }) => {
          const id = who === "own" ? own.id : who === "forged" ? forged : "";
          const headers: { [name: string]: string } = { accept: "application/json" };
          if (who === "own") Object.assign(headers, { cookie: own.cookie, "x-session-id": own.sid });
          if (who === "forged")
            Object.assign(headers, { cookie: `holdfast_counter=${forged}`, "x-session-id": forged });
          // A client's own /v1 requests have no cookie.
          if (/\/v1\//.test(route)) delete headers["cookie"];
          const text = body.replaceAll('"OWN"', JSON.stringify(id)).replaceAll('"FORGED"', JSON.stringify(forged));
          const reply = await send(route.replace("OWN", encodeURIComponent(id)), text, headers);
          statuses.set(`${reply.status}`, (statuses.get(`${reply.status}`) ?? 0) + 1);
          const about = `${route} ${text.slice(0, 500)} -> ${reply.status} ${reply.text.slice(0, 500)}`;
          if (reply.status >= 500) throw new Error(about);
          // Every refusal says why, in the form of its wire.
          if (reply.status >= 400 && !/"(?:error|detail|message)"/.test(reply.text)) throw new Error(about);
          if (/internal server error|TypeError|    at /.test(reply.text)) throw new Error(about);
        }),
      );
    }),
    { numRuns: Math.ceil(count / 20), endOnFailure: true },
  );
  await expectUnchanged(others);
  return statuses;
}

test("bad requests on every wire are refused with its own error, and no other session changes", async () => {
  const statuses = await fuzzed(runs(8_000));
  expect(statuses.get("200")).toBeGreaterThan(100);
  expect(statuses.get("422") ?? 0).toBeGreaterThan(100);
  expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
});

test("more bad requests on every wire", { tags: ["full"] }, async () => {
  await fuzzed(runs(20_000));
});

test("bad frames get an error frame each, in order, and the socket and its episode continue", async () => {
  const other = await openEnvClient(`${environment()}/openenv`);
  await other.ask("reset", { ...task, initial_count: 2 });
  const client = await openEnvClient(`${environment()}/openenv`);
  const frames = fc
    .constantFrom<object>(
      { type: "reset", data: { ...task, seed: 1, episode_id: "e" } },
      { type: "step", data: action },
      { type: "state" },
      { type: "mcp", data: { jsonrpc: "2.0", id: 1, method: "tools/call", params: add } },
    )
    .chain(spoiled)
    // A close is not a bad frame.
    .filter((text) => !/"close"/.test(text));
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(fc.array(frames, { minLength: 25, maxLength: 25 }), async (batch) => {
      for (const reply of await Promise.all(batch.map((text) => client.send(text)))) {
        const code = reply.type === "error" ? String(reply.data.code) : reply.type;
        seen.set(code, (seen.get(code) ?? 0) + 1);
        expect(["observation", "state", "mcp", "error"]).toContain(reply.type);
        expect(JSON.stringify(reply)).not.toMatch(/internal server error|TypeError/);
      }
    }),
    { numRuns: Math.ceil(runs(2_000) / 25), endOnFailure: true },
  );
  expect([...seen.keys()]).toEqual(expect.arrayContaining(["INVALID_JSON", "VALIDATION_ERROR", "observation"]));
  expect((await client.ask("reset", task)).type).toBe("observation");
  expect(JSON.stringify(await client.ask("step", action))).toContain('"count":2');
  expect(JSON.stringify(await other.ask("step", action))).toContain('"count":3');
  for (const each of [client, other]) each.socket.terminate();
  expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
});

const odd: [what: string, route: string, body: object][] = [
  ["content that is an object", "POST /helper/v1/responses", { input: [{ role: "user", content: { a: 1 } }] }],
  ["a part that is null", "POST /helper/v1/responses", { input: [{ role: "user", content: [null] }] }],
  ["a role that cannot be text", "POST /helper/v1/responses", { input: [{ role: [{ toString: 1 }], content: "x" }] }],
  ["a role that cannot be text", "POST /helper/v1/chat/completions", { messages: [{ role: { toString: 1 } }] }],
];

test.each(odd)("a message with %s is refused by %s", async (_, route, body) => {
  const { status } = await send(route, JSON.stringify({ model: "helper", ...body }), {});
  expect(status).toBeGreaterThanOrEqual(400);
  expect(status).toBeLessThan(500);
});

test("a body that is too large is refused with 413 on every wire, and the next request is served", async () => {
  const large = JSON.stringify({ x: "x".repeat(5_000_000) });
  for (const route of Object.keys(valid)) {
    const { status } = await send(route, large, {}).catch(() => ({ status: 413 }));
    expect([route, status]).toEqual([route, 413]);
  }
  await expectUnchanged(await victims());
});

test("clients that leave before they read a reply lose no call", async () => {
  const { sid } = await victims();
  const { hostname, port } = new URL(serving.url);
  const body = (id: string): string => JSON.stringify({ name: add.name, input: { count: 1 }, task_id: id });
  for (let at = 0; at < 20; at++) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => undefined);
    const text = body(`lost-${at}`);
    const head = `POST /counter/ors/call HTTP/1.1\r\nhost: x\r\nx-session-id: ${sid}\r\ncontent-type: application/json`;
    await new Promise((resolve) => socket.write(`${head}\r\ncontent-length: ${text.length}\r\n\r\n${text}`, resolve));
    if (at % 2 === 0) socket.end();
    else setImmediate(() => socket.destroy());
  }
  // Every client repeats its call with the id, and each call is applied once.
  const ors = orsClient(`${environment()}/ors`);
  for (let at = 0; at < 20; at++) {
    let { result } = await ors.call(sid, add.name, { count: 1 }, `lost-${at}`);
    while (result === undefined) ({ result } = await ors.call(sid, add.name, { count: 1 }, `lost-${at}`));
    expect(result).toMatchObject({ ok: true });
  }
  const last = await ors.call(sid, add.name, { count: 0 });
  expect(last.result.output.blocks[0].text).toBe('{"count":22}');
});

const metric = async (name: string): Promise<number> => {
  const text = await (await fetch(`${serving.url}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1]);
};

test("clients that stop reading a long reply hold up nobody and lose no call", async () => {
  const { sid } = await victims();
  const ors = orsClient(`${environment()}/ors`);
  const streams = await metric("holdfast_streams_open");
  // More than the buffers of a connection hold.
  const length = 12_000_000;
  const ids = ["resumed", "closed", "reset"];
  const [resumed, ...others] = await Promise.all(
    ids.map(async (id) => {
      const headers = { "content-type": "application/json", "x-session-id": sid };
      const sent = request(`${environment()}/ors/call`, { method: "POST", agent: false, headers });
      sent.on("error", () => undefined);
      sent.end(JSON.stringify({ name: "speak", input: { length }, task_id: id }));
      const [reply] = (await once(sent, "response")) as [IncomingMessage];
      reply.on("error", () => undefined);
      onTestFinished(() => void reply.destroy());
      return reply;
    }),
  );
  // Each call is applied, and the session and others are served, although nobody reads.
  const counted = async (): Promise<string> =>
    (await ors.call(sid, add.name, { count: 0 })).result.output.blocks[0].text as string;
  await vi.waitUntil(async () => (await counted()) === '{"count":5}', { timeout: 20_000 });
  await expectUnchanged(await victims());
  expect(await metric("holdfast_streams_open")).toBe(streams + ids.length);

  let text = "";
  for await (const part of resumed!.setEncoding("utf8")) text += part as string;
  expect(text.startsWith("event: task_id\ndata: resumed\n\n")).toBe(true);
  const data = [...text.matchAll(/^event: (?:chunk|end)\ndata: (.*)$/gm)].map(([, part]) => part).join("");
  expect((JSON.parse(data) as Loose).output.blocks[0].text.length).toBe(length);
  others[0]!.destroy();
  others[1]!.socket.resetAndDestroy();
  await vi.waitUntil(async () => (await metric("holdfast_streams_open")) === streams, { timeout: 20_000 });
  for (const id of ids) {
    const { result } = await ors.call(sid, "speak", { length }, id);
    expect(result.output.blocks[0].text.length).toBe(length);
  }
  expect(await counted()).toBe('{"count":5}');
});

const wrongOrder: [what: string, route: string, body: object, status: number][] = [
  ["a step before a reset", "POST /openenv/step", { action }, 404],
  ["a state without an id", "GET /openenv/state", {}, 404],
  ["a call of a session that was never created", "POST /ors/call", { name: add.name, input: { count: 1 } }, 404],
  ["a prompt of a session that was never created", "GET /ors/prompt", {}, 404],
  ["a step without a session", "POST /step", { response: { output: [call] } }, 409],
  ["a last step without a session", "POST /step", { response: { output: [] } }, 409],
  ["a last step of a row without a session", "POST /step", { ...task, responses_create_params: {}, response: {} }, 409],
];

test.each(wrongOrder)("wrong order: %s is refused", async (_, route, body, status) => {
  expect((await send(route, JSON.stringify(body), {})).status).toBe(status);
  expect((await send(route, JSON.stringify(body), { "x-session-id": forged })).status).toBe(status);
});

test("wrong order: an episode is submitted once, and a call after the end changes no verdict", async () => {
  const { id, sid } = await victims();
  const at = `${environment()}/openenv/step?session_id=${id}`;
  expect((await post(at, { action: { type: "submit" } })).body.reward).toBe(0);
  await post(at, { action: { ...action, metadata: {} } });
  expect((await post(at, { action: { type: "submit" } })).status).toBe(409);
  const ors = orsClient(`${environment()}/ors`);
  expect((await ors.call(sid, "submit", {})).result.output.reward).toBe(0);
  await ors.call(sid, add.name, { count: 1 });
  expect((await ors.call(sid, "submit", {})).error).toContain("already verified");
});

test("an id of one wire or session opens nothing on another", async () => {
  const [first, second] = [await victims(), await victims()];
  const half = `${first.id.slice(0, -4)}${second.id.slice(-4)}`;
  for (const id of [half, `${first.id}x`, first.cookie, encodeURIComponent("\u0000"), "x".repeat(2_000)]) {
    expect((await post(`${environment()}/openenv/step?session_id=${encodeURIComponent(id)}`, { action })).status).toBe(
      404,
    );
    const ors = await send("POST /ors/call", JSON.stringify({ name: add.name, input: {} }), { "x-session-id": id });
    expect(ors.status).toBe(404);
    const socket = await openEnvClient(`${environment()}/openenv`, encodeURIComponent(id));
    expect((await socket.next()).data.code).toBe("SESSION_ERROR");
    await socket.closed;
  }
  await expectUnchanged(first);
  await expectUnchanged(second);
});

const open = (): Promise<{ socket: WebSocket; raw: Socket }> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`${environment().replace("http", "ws")}/openenv/ws`, { perMessageDeflate: false });
    socket.on("upgrade", ({ socket: raw }) => socket.on("open", () => resolve({ socket, raw })));
    socket.on("error", reject);
  });

test("a thousand sockets that are dropped in every way leave no session, place or stream behind", async () => {
  const sessions = createSessions({ environment: counter, store });
  const listed = async (): Promise<number> => {
    let count = 0;
    for await (const _ of sessions.list({ open: true })) count++;
    return count;
  };
  const before = await listed();
  const other = await victims();
  for (let round = 0; round < 10; round++) {
    const opened = await Promise.all(Array.from({ length: 100 }, () => open()));
    for (const [at, { socket, raw }] of opened.entries()) {
      socket.on("error", () => undefined);
      if (at % 6 === 1) socket.send("{bad");
      if (at % 6 === 2) socket.send(Buffer.from([1, 2, 3]));
      if (at % 6 === 3) for (let ping = 0; ping < 200; ping++) socket.ping("x");
      // Half a frame, and half a connection.
      if (at % 6 === 4) raw.write(Buffer.from([0x81, 0xfe, 0x10]));
      if (at % 6 === 5) raw.end();
      else if (at % 2 === 0) socket.terminate();
      else socket.close();
    }
  }
  for (let tries = 0; (await metric("holdfast_streams_open")) > 0 && tries < 400; tries++) await until(() => true);
  expect(await metric("holdfast_streams_open")).toBe(0);
  // A socket without a message opens no session.
  expect(await listed()).toBe(before + 3);
  await expectUnchanged(other);
  await sessions.stop();
});

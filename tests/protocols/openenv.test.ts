// OpenEnv: its routes, its frames and its four methods; and sessions that outlive sockets and servers.
import { defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { get, openEnvClient, post, served, type Loose } from "./openenv-client.ts";

const counter = defineEnvironment({
  name: "counter",
  description: "Count to the goal.",
  state: z.object({ count: z.number().default(0), secret: z.string().default("hidden") }),
  task: z.object({ initial_count: z.number(), expected_count: z.number() }),
  seed: ({ task }) => ({ count: task.initial_count, secret: `goal ${task.expected_count}` }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
    say: tool({ description: "Say the count.", run: ({ state }) => `it is ${state.count}` }),
    fail: tool({
      description: "Fail.",
      run: () => {
        throw new Error("the goal is blocked");
      },
    }),
  },
  verify: ({ state, task }) => ({ reward: Number(state.count === task.expected_count), count: state.count }),
});
const echo = defineEnvironment({ name: "echo", tools: { ping: tool({ description: "Ping.", run: () => "pong" }) } });

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function baseOf(store: Store = memoryStore()) {
  const server = await served([counter, echo], store, new Map([["counter", "examples/counter"]]));
  const close = (): Promise<void> => {
    void server.close();
    return server.close();
  };
  closing.push(close);
  return { base: `${server.url}/openenv`, url: server.url, close };
}

const task = { initial_count: 1, expected_count: 3 };
const add = (by: number) => ({ type: "call_tool", tool_name: "add", arguments: { by } });

describe("a WebSocket", () => {
  test("plays an episode: tools, reset, calls, state and reward", async () => {
    const { base } = await baseOf();
    const { ask } = await openEnvClient(base);
    const { data: listed } = await ask("step", { type: "list_tools" });
    expect(listed).toMatchObject({ reward: null, done: false });
    expect(listed.observation.tools.map(({ name }: { name: string }) => name)).toEqual([
      "add",
      "say",
      "fail",
      "submit",
    ]);
    expect(listed.observation.tools[0]).toMatchObject({
      description: "Add to the counter.",
      input_schema: { type: "object" },
    });
    expect(await ask("state")).toEqual({ type: "state", data: { episode_id: null, step_count: 0 } });
    const reset = await ask("reset", { seed: 3, episode_id: "ep1", ...task });
    expect(reset).toMatchObject({ type: "observation", data: { observation: {}, reward: null, done: false } });
    expect(await ask("step", add(2))).toEqual({
      type: "observation",
      data: {
        observation: {
          tool_name: "add",
          result: {
            content: [{ type: "text", text: '{"count":3}', annotations: null, meta: null }],
            structured_content: { count: 3 },
            meta: null,
            data: { count: 3 },
            is_error: false,
          },
          error: null,
        },
        reward: null,
        done: false,
      },
    });
    expect((await ask("step", { type: "call_tool", tool_name: "say" })).data.observation.result).toMatchObject({
      structured_content: { result: "it is 3" },
      data: "it is 3",
    });
    // The state of the environment stays hidden.
    expect(await ask("state")).toEqual({ type: "state", data: { episode_id: "ep1", step_count: 2 } });
    expect(await ask("step", { type: "submit" })).toMatchObject({
      data: { observation: { verdict: { reward: 1, count: 3 } }, reward: 1, done: true },
    });
  });

  test("the model's mistakes are observations", async () => {
    const { base } = await baseOf();
    const { ask } = await openEnvClient(base);
    await ask("reset", task);
    const errorOf = async (data: object) => (await ask("step", data)).data.observation.error;
    expect(await errorOf({ type: "call_tool", tool_name: "nope" })).toMatchObject({ error_type: "tool_not_found" });
    expect(await errorOf({ type: "call_tool", tool_name: "add", arguments: { by: "x" } })).toMatchObject({
      error_type: "invalid_args",
    });
    expect(await errorOf({ type: "call_tool", tool_name: "fail" })).toEqual({
      error_type: "execution_error",
      message: "the goal is blocked",
    });
  });

  test("wrong messages get an error frame, and the session continues", async () => {
    const { base } = await baseOf();
    const { ask, send } = await openEnvClient(base);
    const codeOf = async (type: string, data?: unknown) => (await ask(type, data)).data.code;
    expect(await codeOf("step", add(1))).toBe("SESSION_ERROR");
    expect((await send("{bad")).data).toMatchObject({ code: "INVALID_JSON" });
    expect((await send("[1]")).data).toMatchObject({ code: "VALIDATION_ERROR" });
    expect((await send('{"type":"state","more":1}')).data).toMatchObject({ code: "VALIDATION_ERROR" });
    expect(await codeOf("zzz")).toBe("UNKNOWN_TYPE");
    expect(await codeOf("validation_open", {})).toBe("UNKNOWN_TYPE");
    expect(await codeOf("reset", { initial_count: "x" })).toBe("VALIDATION_ERROR");
    expect(await codeOf("reset", { ...task, seed: -1 })).toBe("VALIDATION_ERROR");
    expect(await codeOf("reset", { split: "none", index: 0 })).toBe("VALIDATION_ERROR");
    await ask("reset", task);
    expect(await codeOf("step", { type: "jump" })).toBe("VALIDATION_ERROR");
    expect(await codeOf("step", { ...add(1), nope: 1 })).toBe("VALIDATION_ERROR");
    expect(await codeOf("step", [])).toBe("VALIDATION_ERROR");
    expect((await ask("step", add(1))).data.observation.result.data).toEqual({ count: 2 });
  });

  test("a reset starts the next episode; `close` ends a session of its own", async () => {
    const store = memoryStore();
    const { base } = await baseOf(store);
    const client = await openEnvClient(base);
    await client.ask("reset", task);
    await client.ask("step", add(1));
    const { data } = await client.ask("reset", task);
    expect(data.metadata).toMatchObject({ episode: 2 });
    expect((await client.ask("step", add(1))).data.observation.result.data).toEqual({ count: 2 });
    expect((await client.ask("state")).data.step_count).toBe(1);
    client.socket.send('{"type":"close"}');
    expect(await client.closed).toBe(1000);
    expect(await store.count("counter")).toBe(0);
  });

  test("connecting and listing tools store nothing", async () => {
    const store = memoryStore();
    const { base } = await baseOf(store);
    const client = await openEnvClient(base);
    await client.ask("step", { type: "list_tools" });
    await client.ask("state");
    await client.ask("step", add(1));
    expect(await store.count("counter")).toBe(0);
  });

  test("a second verdict on another state is refused, a repeat of the first is not", async () => {
    const { base } = await baseOf();
    const { ask } = await openEnvClient(base);
    await ask("reset", task);
    const submit = { type: "call_tool", tool_name: "submit", arguments: { response: "done" } };
    expect((await ask("step", submit)).data).toMatchObject({ reward: 0, done: true });
    expect((await ask("step", submit)).data).toMatchObject({ reward: 0, done: true });
    await ask("step", add(2));
    expect((await ask("step", submit)).data).toMatchObject({ code: "EXECUTION_ERROR" });
  });

  test.each(["r1", 7])("ONCE: a repeated action with the same request_id, %j, is applied once", async (id) => {
    const { base } = await baseOf();
    const first = await openEnvClient(base);
    const { data } = await first.ask("reset", task);
    const action = { ...add(1), metadata: { request_id: id } };
    const before = await first.ask("step", action);
    first.socket.terminate();
    const second = await openEnvClient(base, data.metadata.session_id);
    expect(await second.ask("step", action)).toEqual(before);
    expect((await second.ask("step", add(1))).data.observation.result.data).toEqual({ count: 3 });
  });

  test.each([true, "", [1], {}, 2 ** 53])("an action whose request_id is %j is refused", async (id) => {
    const { base } = await baseOf();
    const { ask } = await openEnvClient(base);
    const { data } = await ask("reset", task);
    const frame = await ask("step", { ...add(1), metadata: { request_id: id } });
    expect(frame.data).toMatchObject({ code: "VALIDATION_ERROR", holdfast_code: "invalid_option" });
    const at = `${base}/step?session_id=${data.metadata.session_id}`;
    expect((await post(at, { action: add(1), request_id: id })).status).toBe(400);
    const none = { ...add(1), metadata: { request_id: null } };
    expect((await ask("step", none)).data.observation.result.data).toEqual({ count: 2 });
  });
});

test("a client that reconnects with its id finds its episode, on another server and after a restart", async () => {
  const store = memoryStore();
  const [one, two] = [await baseOf(store), await baseOf(store)];
  const first = await openEnvClient(one.base);
  const { data } = await first.ask("reset", { ...task, episode_id: "mine" });
  const id: string = data.metadata.session_id;
  await first.ask("step", add(1));
  first.socket.terminate();
  const second = await openEnvClient(two.base, id);
  expect((await second.ask("state")).data).toEqual({ episode_id: "mine", step_count: 1 });
  await one.close();
  await two.close();
  expect(await second.closed).not.toBe(1000);
  const three = await baseOf(store);
  const third = await openEnvClient(three.base, id);
  expect((await third.ask("step", add(1))).data.observation.result.data).toEqual({ count: 3 });
  expect((await third.ask("step", { type: "submit" })).data.reward).toBe(1);
});

test("an id that was not issued, or that may only call tools, gets an error frame and a close", async () => {
  const { base, url } = await baseOf();
  const { body } = await post(`${url}/v1/sessions`, { task });
  const limited: string = body.mcp.headers["X-NeMo-Gym-Session-Token"];
  for (const id of ["nobody", body.session, limited]) {
    const client = await openEnvClient(base, id);
    expect((await client.next()).data).toMatchObject({ code: "SESSION_ERROR" });
    expect(await client.closed).toBe(1000);
  }
});

describe("tasks", () => {
  test("a reset by split and index gives the row's prompt, and hides the rest", async () => {
    const { base } = await baseOf();
    const { ask } = await openEnvClient(base);
    const { data } = await ask("reset", { split: "train", index: 0 });
    expect(data.observation.prompt).toEqual(expect.any(String));
    expect(data.observation.messages[0]).toMatchObject({ role: expect.any(String) });
    expect(JSON.stringify(data)).not.toContain("expected_count");
  });

  test("are listed by reference", async () => {
    const { base } = await baseOf();
    expect((await get(`${base}/list_environments`)).body).toEqual(["counter"]);
    expect((await get(`${base}/Counter/splits`)).body).toEqual([
      { name: "default", type: "train" },
      { name: "train", type: "train" },
    ]);
    const { num_tasks: count } = (await post(`${base}/counter/num_tasks`, { split: "default" })).body;
    expect(count).toBeGreaterThan(2);
    const range = (body: object) => post(`${base}/counter/task_range`, { split: "default", ...body });
    expect((await range({ start: 1, stop: 3 })).body.tasks).toEqual([
      { split: "default", index: 1 },
      { split: "default", index: 2 },
    ]);
    expect((await range({ start: -1 })).body.tasks).toEqual([{ split: "default", index: count - 1 }]);
    expect((await range({ stop: null })).body.tasks).toHaveLength(count);
    expect((await range({ start: 5, stop: 2 })).body.tasks).toEqual([]);
    expect((await post(`${base}/counter/tasks`, { split: "default" })).body.tasks).toHaveLength(count);
    expect((await post(`${base}/counter/task`, { split: "default", index: -1 })).body).toEqual({
      task: { split: "default", index: count - 1 },
      env_name: "counter",
    });
    expect((await post(`${base}/counter/task`, { split: "default", index: count })).status).toBe(400);
    expect((await post(`${base}/counter/task`, { split: "none", index: 0 })).status).toBe(404);
    expect((await post(`${base}/nope/task`, { split: "default", index: 0 })).status).toBe(404);
  });
});

describe("HTTP", () => {
  test("a task whose split and index are null is given by its fields", async () => {
    const { base } = await baseOf();
    const { body } = await post(`${base}/reset`, { ...task, seed: null, episode_id: null, split: null, index: null });
    const at = `?session_id=${encodeURIComponent(body.metadata.session_id as string)}`;
    expect((await post(`${base}/step${at}`, { action: add(1) })).body.observation.result.data).toEqual({ count: 2 });
    expect((await post(`${base}/reset`, { split: null, index: 0 })).status).toBe(200);
    expect((await post(`${base}/reset`, { split: "default", index: null })).status).toBe(422);
  });

  test("describes itself as `openenv validate` wants it", async () => {
    const { base, url } = await baseOf();
    expect((await get(`${base}/health`)).body).toEqual({ status: "healthy" });
    expect((await get(`${base}/metadata`)).body).toMatchObject({ name: "counter", description: "Count to the goal." });
    expect((await get(`${base}/schema`)).body).toMatchObject({
      action: { title: "CallToolAction" },
      observation: {},
      state: {},
    });
    const { paths, info } = (await get(`${base}/openapi.json`)).body;
    expect(Object.keys(paths)).toEqual(expect.arrayContaining(["/reset", "/step", "/state"]));
    expect(info.version).toMatch(/^1\./);
    const rpc = await post(`${base}/mcp`, {});
    expect(rpc).toMatchObject({ status: 200, body: { jsonrpc: "2.0", id: null, error: { code: -32600, data: null } } });
    expect((await get(`${url}/echo/openenv/metadata`)).body).toMatchObject({ name: "echo" });
  });

  test("resets, steps and reads the state of a session that its id names", async () => {
    const { base } = await baseOf();
    const { body } = await post(`${base}/reset`, { ...task, episode_id: "e" });
    const id: string = body.metadata.session_id;
    const step = (action: object, more: object = {}) => post(`${base}/step?session_id=${id}`, { action, ...more });
    expect((await step(add(1), { request_id: 5 })).body.observation.result.data).toEqual({ count: 2 });
    expect((await step(add(1), { request_id: "5" })).body.observation.result.data).toEqual({ count: 2 });
    expect((await get(`${base}/state?session_id=${id}`)).body).toEqual({ episode_id: "e", step_count: 1 });
    expect((await step(add(1), { timeout_s: 5 })).body.observation.result.data).toEqual({ count: 3 });
    expect((await step({ type: "submit" })).body).toMatchObject({ reward: 1, done: true });
    expect((await post(`${base}/reset?session_id=${id}`, task)).body.metadata).toMatchObject({ episode: 2 });
    const lost = await post(`${base}/step`, { action: add(1) });
    expect(lost).toMatchObject({ status: 404, body: { error: { code: "session_not_found" } } });
    expect(lost.body.detail).toContain("session_id is missing");
    expect((await post(`${base}/reset`, { initial_count: "x" })).status).toBe(422);
    for (const timeout_s of [-1, 0, "5", []]) expect((await step(add(1), { timeout_s })).status).toBe(400);
    expect((await step(add(1), { timeout_s: null })).body.observation.result.data).toEqual({ count: 2 });
    expect((await get(`${base}/reset`)).status).toBe(405);
    expect((await get(`${base}/none`)).status).toBe(404);
  });

  test("a gym agent's model cannot reach it", async () => {
    const { url } = await baseOf();
    const seeded = await fetch(`${url}/seed_session`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(task),
    });
    const [cookie = ""] = seeded.headers.get("set-cookie")?.split(";") ?? [];
    const reply = await post(`${url}/openenv/counter/tasks`, { split: "default" }, { cookie });
    expect(reply).toMatchObject({ status: 404, body: { error: { code: "unknown_tool" } } });
  });
});

describe("its JSON-RPC", () => {
  const rpc = async (base: string, method: string, params: object = {}, query = "") =>
    (await post(`${base}/mcp${query}`, { jsonrpc: "2.0", id: 7, method, params })).body;

  test("creates a session, calls its tools beside a WebSocket, and closes it", async () => {
    const { base } = await baseOf();
    const { result } = await rpc(base, "openenv/session/create");
    const id: string = result.session_id;
    const client = await openEnvClient(base, id);
    await client.ask("reset", task);
    expect((await rpc(base, "tools/list", { session_id: id })).result.tools).toHaveLength(4);
    const called = await rpc(base, "tools/call", { session_id: id, name: "add", arguments: { by: 1 } });
    expect(called).toMatchObject({ jsonrpc: "2.0", id: 7, result: { data: { count: 2 } } });
    expect(
      (await rpc(base, "tools/call", { name: "add", arguments: { by: 1 } }, `?rle_session_id=${id}`)).result.data,
    ).toEqual({
      count: 3,
    });
    const frame = await client.ask("mcp", { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "submit" } });
    expect(frame).toMatchObject({ type: "mcp", data: { id: 1, result: { data: { reward: 1 } } } });
    client.socket.send('{"type":"close"}');
    await client.closed;
    expect((await rpc(base, "openenv/session/close", { session_id: id })).result).toEqual({
      session_id: id,
      closed: true,
    });
    expect((await rpc(base, "openenv/session/close", { session_id: id })).result).toMatchObject({ closed: false });
    expect((await rpc(base, "tools/call", { session_id: id, name: "say" })).error).toMatchObject({ code: -32602 });
  });

  test("ONCE: a call that is repeated with its id is applied once, over HTTP and WebSockets", async () => {
    const { base } = await baseOf();
    const client = await openEnvClient(base);
    const { data } = await client.ask("reset", task);
    const params = { session_id: data.metadata.session_id, name: "add", arguments: { by: 1 } };
    const message = (more: object = {}) => ({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { ...params, ...more },
    });
    const http = async (more: object, headers = {}) => (await post(`${base}/mcp`, message(more), headers)).body;
    const counts: number[] = [];
    for (const more of [{}, {}, { _meta: { callId: "c1" } }, { _meta: { "claudecode/toolUseId": "c1" } }]) {
      counts.push((await http(more)).result.data.count);
    }
    for (const _ of [1, 2]) counts.push((await http({}, { "idempotency-key": "k1" })).result.data.count);
    counts.push((await client.ask("mcp", message({ _meta: { "dev.holdfast/call": "k1" } }))).data.result.data.count);
    expect(counts).toEqual([2, 3, 4, 4, 5, 5, 5]);
    expect((await http({ _meta: { callId: {} } })).error).toMatchObject({
      code: -32602,
      data: { code: "invalid_option" },
    });
  });

  test("every failure is an error with status 200, a code and data", async () => {
    const { base } = await baseOf();
    const bad = await fetch(`${base}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{bad",
    });
    expect([bad.status, await bad.json()]).toMatchObject([200, { error: { code: -32700 } }]);
    expect((await rpc(base, "initialize")).error).toMatchObject({ code: -32601, data: {} });
    expect((await rpc(base, "tools/call", { name: "say", session_id: "nobody" })).error).toMatchObject({
      code: -32602,
      message: "Unknown session_id: nobody",
    });
    expect((await rpc(base, "tools/call", { name: "say" })).error).toMatchObject({ code: -32602 });
    expect((await rpc(base, "tools/call", { name: 1 })).error).toMatchObject({ code: -32602 });
    const { result } = await rpc(base, "openenv/session/create");
    expect((await rpc(base, "tools/call", { name: "say", session_id: result.session_id })).error).toMatchObject({
      code: -32602,
    });
    const { metadata } = (await post(`${base}/reset`, task)).body;
    const called = async (name: string, input: object): Promise<Loose> =>
      (await rpc(base, "tools/call", { name, arguments: input, session_id: metadata.session_id })).error;
    // The parameters are valid, but the tool throws.
    expect(await called("fail", {})).toMatchObject({ code: -32603, message: "the goal is blocked" });
    expect(await called("add", { by: "x" })).toMatchObject({ code: -32602, data: { code: "invalid_input" } });
    expect(await called("nope", {})).toMatchObject({ code: -32602, data: { code: "unknown_tool" } });
  });

  test("an environment without state needs no reset", async () => {
    const { url } = await baseOf();
    const base = `${url}/echo/openenv`;
    const { result } = await rpc(base, "openenv/session/create");
    expect((await rpc(base, "tools/call", { name: "ping", session_id: result.session_id })).result).toMatchObject({
      data: "pong",
    });
    const client = await openEnvClient(base);
    expect((await client.ask("step", { tool_name: "ping" })).data.observation.result.data).toBe("pong");
  });
});

const send = async (...sent: Parameters<typeof post>): Promise<Loose> => (await post(...sent)).body as Loose;

test("ONCE: a reset that is repeated with its key keeps the episode", async () => {
  const { base } = await baseOf();
  const keyed = { "idempotency-key": "reset-1" };
  const first = await send(`${base}/reset`, task, keyed);
  const id = first.metadata.session_id as string;
  const at = `?session_id=${encodeURIComponent(id)}`;
  const begun = await send(`${base}/reset${at}`, task, { "idempotency-key": "reset-2" });
  await send(`${base}/step${at}`, { action: add(1) });
  const again = await send(`${base}/reset${at}`, task, { "idempotency-key": "reset-2" });
  expect(again.metadata.episode).toBe(begun.metadata.episode);
  expect(await send(`${base}/step${at}`, { action: { type: "call_tool", tool_name: "say" } })).toMatchObject({
    observation: { result: { data: "it is 2" } },
  });
});

test("an error sets no cookie, which would lock the client out", async () => {
  const { base } = await baseOf();
  const json = { "content-type": "application/json" };
  const failed = await fetch(`${base}/reset`, { method: "POST", headers: json, body: '{"index":100000}' });
  expect(failed.status).toBeGreaterThanOrEqual(400);
  expect(failed.headers.get("set-cookie")).toBeNull();
});

test("a second submit after more calls is refused as a client's mistake", async () => {
  const { base } = await baseOf();
  const { metadata } = await send(`${base}/reset`, task);
  const at = `?session_id=${encodeURIComponent(metadata.session_id as string)}`;
  expect(await send(`${base}/step${at}`, { action: { type: "submit" } })).toMatchObject({ done: true, reward: 0 });
  await send(`${base}/step${at}`, { action: add(2) });
  expect(await send(`${base}/step${at}`, { action: { type: "submit" } })).toMatchObject({
    error: { code: "episode_over" },
  });
});

test("a submit that is sent again with its request id, after more calls, gets the first verdict", async () => {
  const { base } = await baseOf();
  const { metadata } = await send(`${base}/reset`, task);
  const at = `?session_id=${encodeURIComponent(metadata.session_id as string)}`;
  const again = () => send(`${base}/step${at}`, { action: { type: "submit" }, request_id: "s" });
  expect(await again()).toMatchObject({ done: true, reward: 0 });
  await send(`${base}/step${at}`, { action: add(2) });
  expect(await again()).toMatchObject({ done: true, reward: 0 });
  const rpc = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "submit" } };
  expect(await send(`${base}/mcp${at}`, rpc)).toMatchObject({ error: {} });
});

test.each([0.0007, 5e6, 1e300])("a step with a time limit of %d seconds is answered", async (seconds) => {
  const { base } = await baseOf();
  const { metadata } = await send(`${base}/reset`, task);
  const at = `?session_id=${encodeURIComponent(metadata.session_id as string)}`;
  const reply = await send(`${base}/step${at}`, { action: add(1), timeout_s: seconds });
  expect(reply.error?.code).not.toBe("internal");
});

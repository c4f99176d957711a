// ORS: the routes in the form that trainers import, and calls that are applied once.
import { defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import { gate } from "../agent/engine.ts";
import { until } from "../server/serving.ts";
import { post, served } from "./openenv-client.ts";
import { orsClient } from "./ors-client.ts";

const counter = defineEnvironment({
  name: "counter",
  description: "Count to the goal.",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ initial_count: z.number(), expected_count: z.number() }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ by: z.number().int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
    repeat: tool({
      description: "Repeat a text.",
      input: z.object({ text: z.string(), times: z.number() }),
      run: (_, { text, times }) => text.repeat(times),
    }),
    fail: tool({
      description: "Fail.",
      run: () => {
        throw new Error("the goal is blocked");
      },
    }),
  },
  verify: ({ state, task }) => ({ reward: Number(state.count === task.expected_count) }),
});
const echo = defineEnvironment({ name: "Echo", tools: { ping: tool({ description: "Ping.", run: () => "pong" }) } });

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function clientOf(store: Store = memoryStore(), environments: AnyEnvironment[] = [counter, echo]) {
  const server = await served(environments, store, new Map([["counter", "examples/counter"]]));
  const close = (): Promise<void> => {
    void server.close();
    return server.close();
  };
  closing.push(close);
  return { ...orsClient(`${server.url}/ors`), url: server.url, close };
}

const task = { initial_count: 1, expected_count: 3 };

async function episodeOf({ createSession, json }: Awaited<ReturnType<typeof clientOf>>): Promise<string> {
  const id = await createSession();
  expect((await json("POST", "/create", { task_spec: task }, id)).body).toEqual({ sid: id });
  return id;
}

test("the first environment of a folder is served: tools, splits and tasks with exactly their fields", async () => {
  const { json, url } = await clientOf();
  expect((await json("GET", "/health")).body).toEqual({ status: "ok" });
  expect((await json("GET", "/list_environments")).body).toEqual(["counter", "echo"]);
  const { tools } = (await json("GET", "/counter/tools")).body;
  expect(tools.map((each: object) => Object.keys(each))).toEqual(
    tools.map(() => ["name", "description", "input_schema"]),
  );
  expect(tools.map(({ name }: { name: string }) => name)).toEqual(["add", "repeat", "fail", "submit"]);
  expect((await json("GET", "/tools")).body).toEqual({ tools });
  expect((await json("GET", "/COUNTER/splits")).body).toContainEqual({ name: "train", type: "train" });
  expect((await json("GET", "/splits")).body).toHaveLength(2);
  expect((await json("POST", "/counter/task", { split: "train", index: 0 })).body).toEqual({
    task: { split: "train", index: 0 },
    env_name: "counter",
  });
  expect((await json("GET", "/echo/splits")).body).toEqual([]);
  expect((await json("GET", "/nope/tools")).status).toBe(404);
  expect((await json("POST", "/counter/tools", {})).status).toBe(405);
  expect((await orsClient(`${url}/Echo/ors`).json("GET", "/list_environments")).body).toEqual(["echo"]);
});

test("a session plays a task: prompt, tools, calls, reward", async () => {
  const client = await clientOf();
  const id = await client.createSession();
  await client.json("POST", "/create", { env_name: "counter", split: "train", index: 0 }, id);
  const { body: prompt } = await client.json("GET", "/counter/prompt", undefined, id);
  expect(prompt[0]).toEqual({ type: "text", text: expect.any(String), detail: null });
  expect((await client.json("GET", "/counter/task_tools", undefined, id)).body.tools).toHaveLength(4);
  expect((await client.json("POST", "/ping", {}, id)).body).toEqual({ status: "ok" });
  expect((await client.json("GET", "/version", undefined, id)).body).toEqual({ version: expect.any(String) });
  const { result } = await client.call(id, "add", { by: 1 }, undefined, "/counter/call");
  expect(result).toMatchObject({ ok: true, output: { metadata: null, reward: null, finished: false } });
  expect(Object.keys(result.output)).toEqual(["blocks", "metadata", "reward", "finished"]);
  expect((await client.json("POST", "/delete", {}, id)).body).toEqual({ sid: id });
  expect((await client.json("POST", "/delete_session", {}, id)).body).toEqual({ sid: id });
  expect((await client.call(id, "add", { by: 1 })).error).toMatch(/^there is no session/);
});

test("a ping answers while its episode is open, and adds nothing to the log", async () => {
  const store = memoryStore();
  const client = await clientOf(store);
  const [id, other] = [await episodeOf(client), await client.createSession()];
  const ping = async (session: string): Promise<unknown[]> => {
    const { status, body } = await client.json("POST", "/ping", {}, session);
    return [status, body.status ?? body.error.code];
  };
  // Not created yet.
  expect(await ping(other)).toEqual([404, "session_not_found"]);
  await client.json("POST", "/create", { env_name: "echo", task_spec: {} }, other);
  for (const session of [id, other]) expect(await ping(session)).toEqual([200, "ok"]);
  for await (const { version } of store.list({ environment: "counter" })) expect(version).toBe(2);
  await client.json("POST", "/delete", {}, id);
  expect(await ping(id)).toEqual([404, "session_not_found"]);
  expect(await ping(other)).toEqual([200, "ok"]);
});

test("`submit` ends the episode with its reward, once", async () => {
  const client = await clientOf();
  const id = await episodeOf(client);
  await client.call(id, "add", { by: 2 });
  const first = await client.call(id, "submit", {});
  expect(first.result.output).toMatchObject({ reward: 1, finished: true });
  expect((await client.call(id, "submit", {}, first.id)).result).toEqual(first.result);
  await client.call(id, "add", { by: 1 });
  expect((await client.call(id, "submit", {})).error).toContain("was already verified");
});

test("ONCE: a `submit` that is repeated with its task_id after more calls gets the recorded result", async () => {
  const client = await clientOf();
  const id = await episodeOf(client);
  await client.call(id, "add", { by: 2 });
  const first = await client.call(id, "submit", {}, "s1");
  await client.call(id, "add", { by: 1 });
  expect((await client.call(id, "submit", {}, "s1")).result).toEqual(first.result);
  expect((await client.call(id, "submit", { response: "other" }, "s1")).error).toContain("was already verified");
});

test("a mistake of the model is a result that is not ok", async () => {
  const client = await clientOf();
  const id = await episodeOf(client);
  expect((await client.call(id, "add", { by: "x" })).result).toMatchObject({ ok: false, error: expect.any(String) });
  expect((await client.call(id, "nope", {})).result).toMatchObject({ ok: false });
  expect((await client.call(id, "fail", {})).result).toEqual({ ok: false, error: "the goal is blocked" });
});

test("a call that is repeated with its task_id is applied once, on another server and after a restart", async () => {
  const store = memoryStore();
  const [one, two] = [await clientOf(store), await clientOf(store)];
  const id = await episodeOf(one);
  const first = await one.call(id, "add", { by: 1 });
  expect((await two.call(id, "add", { by: 1 }, first.id)).result).toEqual(first.result);
  await one.close();
  await two.close();
  const three = await clientOf(store);
  expect((await three.call(id, "add", { by: 1 }, first.id)).result).toEqual(first.result);
  expect((await three.call(id, "add", { by: 2 }, first.id)).error).toContain("was already used");
  expect((await three.call(id, "add", { by: 1 })).result.output.blocks).toEqual([
    { type: "text", text: '{"count":3}', detail: null },
  ]);
  expect((await three.call(id, "submit", {})).result.output.reward).toBe(1);
});

test("a task_id may be a number, and nothing else than a text or a number", async () => {
  const client = await clientOf();
  const id = await episodeOf(client);
  const first = await client.call(id, "add", { by: 1 }, 7);
  expect((await client.call(id, "add", { by: 1 }, 7)).result).toEqual(first.result);
  expect((await client.call(id, "add", { by: 1 }, { id: 7 })).error).toContain("invalid_option");
  expect((await client.call(id, "add", { by: 1 }, null)).result.output.blocks[0].text).toBe('{"count":3}');
});

test("the task_id arrives while the tool runs, and a client that then leaves gets the result with it", async () => {
  let runs = 0;
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const slow = defineEnvironment({
    name: "slow",
    state: z.object({ count: z.number().default(0) }),
    tools: {
      add: tool({
        description: "Add one, later.",
        run: async ({ state }) => {
          runs++;
          await released;
          return { count: ++state.count };
        },
      }),
    },
  });
  const client = await clientOf(memoryStore(), [slow]);
  const session = await client.createSession();
  await client.json("POST", "/create", { task_spec: {} }, session);
  const headers = { "content-type": "application/json", "x-session-id": session };
  const body = JSON.stringify({ name: "add", input: {} });
  const reply = await fetch(`${client.url}/ors/call`, { method: "POST", headers, body });
  const reader = reply.body!.getReader();
  const text = Buffer.from((await reader.read()).value!).toString();
  const [, id] = /^event: task_id\ndata: (\S+)\n\n$/.exec(text) ?? [];
  expect(id).toBeDefined();
  expect(runs).toBe(1);
  await reader.cancel();
  const again = client.call(session, "add", {}, id);
  release();
  expect((await again).result.output.blocks[0].text).toBe('{"count":1}');
  expect((await client.call(session, "add", {}, id)).result.output.blocks[0].text).toBe('{"count":1}');
});

test("ONCE: a retry on another server waits for the call, and ends when its server stops", async () => {
  const [running, done] = [gate(), gate()];
  let runs = 0;
  const mail = defineEnvironment({
    name: "mail",
    tools: {
      send: tool({
        description: "Send a mail, slowly.",
        effects: "external",
        run: async () => {
          runs++;
          running.open();
          await done.opened;
          return "sent";
        },
      }),
    },
  });
  const store = memoryStore();
  const [one, two] = [await clientOf(store, [mail]), await clientOf(store, [mail])];
  let asked = 0;
  const counted: ProxyHandler<Store> = { get: (target, key) => (asked++, Reflect.get(target, key) as unknown) };
  const stopping = await served([mail], new Proxy(store, counted));
  const session = await one.createSession();
  await one.json("POST", "/create", { task_spec: {} }, session);
  const first = one.call(session, "send", {}, "m1");
  await running.opened;
  const retry = two.call(session, "send", {}, "m1");
  const headers = { "content-type": "application/json", "x-session-id": session };
  const body = JSON.stringify({ name: "send", input: {}, task_id: "m1" });
  const cut = await fetch(`${stopping.url}/ors/call`, { method: "POST", headers, body });
  // The retry polls the store.
  await until(() => asked > 50);
  await stopping.close();
  expect(await cut.text()).toBe("event: task_id\ndata: m1\n\n");
  done.open();
  expect((await retry).result.output.blocks[0].text).toBe("sent");
  expect((await retry).result).toEqual((await first).result);
  expect(runs).toBe(1);
});

test("a create that is repeated is not an error; another task is", async () => {
  const client = await clientOf();
  const id = await episodeOf(client);
  expect((await client.json("POST", "/create", { task_spec: task }, id)).body).toEqual({ sid: id });
  const other = await client.json("POST", "/create", { task_spec: { ...task, expected_count: 4 } }, id);
  expect(other).toMatchObject({ status: 400, body: { detail: expect.stringContaining("another task") } });
});

test("a create whose task has no field of the first one is another task", async () => {
  const { createSession, json } = await clientOf();
  const id = await createSession();
  const create = (spec: object) => json("POST", "/create", { env_name: "echo", task_spec: spec }, id);
  await create({ city: "Oslo" });
  expect((await create({ city: "Oslo" })).status).toBe(200);
  for (const spec of [{}, { town: "Oslo" }]) expect((await create(spec)).status).toBe(400);
});

test("discovery stores nothing, and unknown ids are refused", async () => {
  const store = memoryStore();
  const client = await clientOf(store);
  const id = await client.createSession();
  await client.json("GET", "/tools", undefined, id);
  await client.json("POST", "/ping", {}, id);
  await client.json("POST", "/delete_session", {}, id);
  expect(await store.count("counter")).toBe(0);
  for (const wrong of [undefined, "nobody"]) {
    expect((await client.json("POST", "/ping", {}, wrong)).status).toBe(404);
    expect((await client.json("POST", "/create", { task_spec: task }, wrong)).status).toBe(404);
    expect((await client.json("POST", "/call", { name: "add" }, wrong)).status).toBe(404);
  }
  expect((await client.json("POST", "/call", {}, id)).status).toBe(400);
  expect((await client.json("POST", "/create", { task_spec: { initial_count: "x" } }, id)).status).toBe(422);
  expect((await client.json("POST", "/create", { task_spec: [] }, id)).status).toBe(400);
  // Not created yet.
  expect((await client.call(id, "add", { by: 1 })).error).toBeDefined();
});

describe("long results", () => {
  test.each([
    ["blanks", " ", 50_000],
    ["unusual blanks", "\u00a0", 50_000],
    ["next-line characters", "\u0085", 50_000],
    ["pairs of surrogates", "🙂", 20_001],
    ["quotes", '"', 20_000],
    ["short", "x", 10],
  ])("of %s arrive whole", async (_, text, times) => {
    const client = await clientOf();
    const id = await episodeOf(client);
    const { result, events } = await client.call(id, "repeat", { text, times });
    expect(result.output.blocks[0].text).toBe(text.repeat(times));
    expect(events.map(({ event }) => event).filter((event) => event !== "chunk")).toEqual(["task_id", "end"]);
  });
});

test("a gym agent's model cannot reach it", async () => {
  const { url } = await clientOf();
  const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(task) };
  const [cookie = ""] = (await fetch(`${url}/seed_session`, init)).headers.get("set-cookie")?.split(";") ?? [];
  const reply = await post(`${url}/ors/create_session`, {}, { cookie });
  expect(reply).toMatchObject({ status: 404, body: { error: { code: "unknown_tool" } } });
});

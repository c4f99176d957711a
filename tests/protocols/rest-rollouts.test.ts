// The routes of rollout requests: what they refuse, what they stream, and what a slow client costs.
import { createSessions, defineEnvironment, memoryStore, tool, type Store } from "holdfast";
import { createRolloutRequests } from "holdfast/rollout";
import { serve } from "holdfast/serve";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { restProtocol } from "../../src/protocols/rest.ts";
import { chatServer, completion } from "../rollout/chat-server.ts";
import { clientFor, type Client } from "./rest-client.ts";

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ bricks: z.number().default(0) }),
  task: z.object({ n: z.number() }),
  seed: () => ({ bricks: 0 }),
  tools: { stack: tool({ description: "Stack.", run: ({ state }) => ++state.bricks }) },
  verify: ({ state }) => state.bricks,
});
const row = (n: number, input = "Stack.") => ({ n, responses_create_params: { input } });
const tasks = [row(0), row(1)];

function clientOn(store: Store = memoryStore()): Client {
  const episodes = createSessions({ environment: pile, store });
  const sessions = createSessions({ app: "rollouts", store });
  const requests = createRolloutRequests({ store, episodes, sessions });
  onTestFinished(() => requests.stop());
  return clientFor(restProtocol({ sessions: episodes, requests }));
}

async function linesOf(stream: AsyncIterable<string> | undefined): Promise<{ [field: string]: unknown }[]> {
  const lines = [];
  for await (const line of stream ?? []) {
    expect(line.endsWith("\n")).toBe(true);
    lines.push(JSON.parse(line) as { [field: string]: unknown });
  }
  return lines;
}

const model = { name: "random" };

test.for([
  ["no model", {}, /model is missing/],
  ["a model without a name", { model: {} }, /model\.name is missing/],
  [
    "a model elsewhere",
    { tasks, model: { url: "http://example.com/v1", name: "m" } },
    /--allow-model http:\/\/example\.com/,
  ],
  ["a model without a URL", { tasks, model: { name: "gpt" } }, /`model.url` is missing/],
  [
    "an unknown API",
    { tasks, model: { url: "http://127.0.0.1/v1", name: "m", api: "soap" } },
    /model\.api must be one of/,
  ],
  ["an unknown field", { tasks, model, reapeats: 2 }, /has no field "reapeats"/],
  ["an unknown limit", { tasks, model, limits: { turns: 2 } }, /limits has no field "turns"/],
  ["no repeats", { tasks, model, repeats: 0 }, /repeats must be an integer from 1/],
  ["tasks that are not rows", { tasks: ["a"], model }, /tasks\.0 must be an object/],
  ["no tasks", { tasks: [], model }, /`tasks` is empty/],
  ["tasks and a split", { tasks, split: "train", model }, /not both/],
  ["a split of a server without files", { split: "train", model }, /has no tasks file/],
  ["a split that is a path", { split: "../x", model }, /`split` must be letters/],
  ["an id that is a path", { request: "a/b", tasks, model }, /not a valid request id/],
  [
    "a step twice",
    {
      tasks,
      model,
      branch: [
        { ways: 2, step: 1 },
        { ways: 3, step: 1 },
      ],
    },
    /names a step twice/,
  ],
  [
    "a fork beyond the limit",
    { tasks, model, branch: [{ ways: 2, step: 3 }], limits: { steps: 3 } },
    /below `limits.steps`/,
  ],
  ["a field of the player", { tasks, model: { name: "random", request: { tools: [] } } }, /cannot set `tools`/],
  ["a solution that is missing", { tasks, model: { name: "scripted" } }, /needs a solution/],
] as const)("%s is refused with a code and what would be right", async ([, body, message]) => {
  const got = await clientOn()("POST", "/v1/rollouts", { body });
  expect([got.status, got.body.error.code]).toEqual([400, "invalid_option"]);
  expect(got.body.error.message).toMatch(message);
});

test("a request is streamed, continued, listed and deleted, and the document describes its routes", async () => {
  const client = clientOn();
  const body = { request: "r1", tasks: [...tasks, { n: "x" }], repeats: 2, model, attempts: 1 };
  const posted = await client("POST", "/v1/rollouts", { body });
  expect([posted.status, posted.headers["content-type"]]).toEqual([200, "application/x-ndjson"]);
  const lines = await linesOf(posted.stream);
  expect(lines.map(({ index }) => index)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const failed = lines.filter(
    ({ row: each }) => (each as { failure_kind?: string } | undefined)?.failure_kind === "task",
  );
  expect(failed).toHaveLength(2);
  const again = await client("GET", "/v1/rollouts/r1?after=6");
  expect(await linesOf(again.stream)).toEqual(lines.slice(6));
  const joined = await client("POST", "/v1/rollouts?after=6", { body });
  expect(await linesOf(joined.stream)).toEqual(lines.slice(6));
  // A request that does not exist has no lines to leave out, and does not start.
  const early = await client("POST", "/v1/rollouts?after=6", { body: { ...body, request: "r2" } });
  expect([early.status, early.body.error.code]).toEqual([404, "not_found"]);
  const conflict = await client("POST", "/v1/rollouts", { body: { ...body, repeats: 3 } });
  expect([conflict.status, conflict.body.error.code]).toEqual([409, "call_conflict"]);
  const missing = await client("GET", "/v1/rollouts/r2");
  expect([missing.status, missing.body.error.code]).toEqual([404, "not_found"]);
  const listed = await client("GET", "/v1/rollouts");
  const info = { request: "r1", state: "ended", opened: expect.any(Number) as number, done: 6, failed: 2 };
  expect(listed.body).toEqual({ requests: [info], next: null });
  // A cancellation that comes too late deletes nothing.
  expect((await client("DELETE", "/v1/rollouts/r1")).body).toEqual({ cancelled: false });
  expect((await client("GET", "/v1/rollouts")).body).toEqual({ requests: [info], next: null });
  expect((await client("DELETE", "/v1/rollouts/r1?delete=true")).body).toEqual({ cancelled: false, deleted: true });
  expect((await client("GET", "/v1/rollouts")).body).toEqual({ requests: [], next: null });
  expect((await client("DELETE", "/v1/rollouts/r1")).status).toBe(404);
  const { body: document } = await client("GET", "/openapi.json");
  expect(Object.keys(document.paths["/v1/rollouts"])).toEqual(["post", "get"]);
  expect(Object.keys(document.paths["/v1/rollouts/{id}"])).toEqual(["get", "delete"]);
  const { content } = document.paths["/v1/rollouts"].post.responses["200"];
  expect(Object.keys(content)).toEqual(["application/x-ndjson"]);
});

test("every field with every wrong value gets a documented reply", async () => {
  const client = clientOn();
  const { body: document } = await client("GET", "/openapi.json");
  const { post } = document.paths["/v1/rollouts"];
  const { properties } = post.requestBody.content["application/json"].schema;
  expect(Object.keys(properties)).toHaveLength(18);
  for (const name of Object.keys(properties)) {
    for (const value of [null, -1, 1.5, 1e12, "x", "a/b", true, [], [{}], {}, { a: 1 }]) {
      const got = await client("POST", "/v1/rollouts", { body: { tasks: [row(0)], model, [name]: value } });
      const asked = `${name}: ${JSON.stringify(value)}`;
      expect(Object.keys(post.responses), `${asked} gave ${got.status}`).toContain(String(got.status));
      if (got.status !== 200) expect(got.body.error.message, asked).toMatch(/\S/);
    }
  }
  for (const query of ["after=-1", "after=x", "limit=0", "limit=1e9", "other=1"]) {
    for (const path of ["/v1/rollouts", "/v1/rollouts/none"]) {
      expect((await client("GET", `${path}?${query}`)).status, `${path}?${query}`).toBeOneOf([200, 400, 404]);
    }
  }
});

test("a server without rollouts has no such route", async () => {
  const sessions = createSessions({ environment: pile, store: memoryStore() });
  const client = clientFor(restProtocol({ sessions }));
  expect((await client("POST", "/v1/rollouts", { body: { model } })).status).toBe(404);
  expect((await client("GET", "/openapi.json")).body.paths).not.toHaveProperty("/v1/rollouts");
});

test("a client that does not read delays nothing, and the server reads only the beginning of its rows", async () => {
  const { url: policy } = await chatServer(() => completion("x".repeat(100_000)));
  const inner = memoryStore();
  let bytes = 0;
  const read: Store["read"] = async (session, ...rest) => {
    const entries = await inner.read(session, ...rest);
    if (session.startsWith("holdfast:rollouts:")) for (const { body } of entries ?? []) bytes += body.length;
    return entries;
  };
  const store = { ...inner, read };
  const { url, close } = await serve({
    environments: [pile],
    store,
    port: 0,
    rollouts: { places: 16 },
    log: { what: "none" },
  });
  onTestFinished(close);
  const count = 300;
  const body = JSON.stringify({
    request: "large",
    tasks: Array.from({ length: count }, (_, n) => row(n)),
    model: { url: policy, name: "p" },
  });
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  socket.pause();
  const head = `POST /v1/rollouts HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  socket.write(head + body);
  for (;;) {
    const listed = (await (await fetch(`${url}/v1/rollouts`)).json()) as {
      requests: { state: string; done: number }[];
    };
    if (listed.requests[0]?.state === "ended") break;
    await sleep(500);
  }
  // Of 30 MB of rows, the buffers of the two sockets hold a few.
  expect(bytes).toBeLessThan(15_000_000);
  expect(bytes).toBeGreaterThan(0);
});

test("a silent stream has no comments, which are not JSON", { timeout: 20_000 }, async () => {
  const { url: policy } = await chatServer(() => new Promise(() => undefined));
  const limits = { heartbeat: 50 };
  const { url, close } = await serve({
    environments: [pile],
    store: memoryStore(),
    port: 0,
    limits,
    rollouts: { places: 1 },
  });
  onTestFinished(close);
  const stopping = new AbortController();
  const reply = await fetch(`${url}/v1/rollouts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ request: "silent", tasks, model: { url: policy, name: "p" } }),
    signal: stopping.signal,
  });
  let text = "";
  for await (const chunk of reply.body as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    if (text.includes("waiting")) break;
  }
  const types = text
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { type: string }).type);
  expect(types).toEqual(["begun", "waiting"]);
  const cancelled = await fetch(`${url}/v1/rollouts/silent`, { method: "DELETE" });
  expect(await cancelled.json()).toEqual({ cancelled: true });
});

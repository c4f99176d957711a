// A model that cheats through an unmodified agent: it names the server's own routes as tools, and gains nothing by it.
import { createSessions, defineEnvironment, memoryStore, scriptedModel, tool } from "holdfast";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { serve, type ServeOptions } from "../../src/server/serve.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { gymOf, StrictClient } from "./gym-client.ts";
import { simpleAgent, type ToolCall } from "./simple-agent.ts";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.int().default(0) }),
  task: z.object({ initial_count: z.int(), expected_count: z.int(), tolerance: z.int().optional() }),
  seed: ({ task }) => {
    if (task.initial_count === 13) throw new Error("unlucky");
    return { count: task.initial_count };
  },
  tools: {
    add: tool({
      description: "Add.",
      input: z.object({ by: z.int() }),
      run: ({ state }, { by }) => ({ count: (state.count += by) }),
    }),
  },
  verify({ state, task }) {
    if (task.expected_count === 13) throw new Error("no verdict");
    const { expected_count, tolerance = 0 } = task;
    return { reward: Number(Math.abs(state.count - expected_count) <= tolerance), count: state.count };
  },
});

const row = {
  responses_create_params: { input: [{ role: "user", content: "Make it six." }], tools: [], temperature: null },
  initial_count: 3,
  expected_count: 6,
  verifier_metadata: { level: 2 },
  _ng_task_index: 0,
  _ng_rollout_index: 0,
};

async function serving(options: Partial<ServeOptions> = {}): Promise<string> {
  const store = memoryStore();
  const { url, close } = await serve({ environments: [counter], store, port: 0, log: { what: "none" }, ...options });
  onTestFinished(close);
  return url;
}

const inTurn =
  (calls: ToolCall[]) =>
  (_: unknown, turn: number): ToolCall | undefined =>
    calls[turn];

const add = (by: number): ToolCall => ({ name: "add", arguments: { by } });
const otherTask = "the row does not match the task that this episode was seeded with";
const masked = { reward: 0, mask_sample: true, _ng_failure_class: "verify" };

test("an honest model earns its reward, with nothing at the top that a collector takes for a metric", async () => {
  const url = await serving();
  const won = await simpleAgent(url, row, inTurn([add(1), add(2)]));
  expect(won.row).toMatchObject({ ...row, reward: 1, count: 6, session_id: expect.any(String) });
  expect(won.row).not.toHaveProperty("mask_sample");
  const numbers = Object.keys(won.row).filter((name) => typeof won.row[name] === "number");
  expect(numbers.sort()).toEqual([
    "_ng_rollout_index",
    "_ng_task_index",
    "count",
    "expected_count",
    "initial_count",
    "reward",
  ]);
  expect((await simpleAgent(url, row, inTurn([add(1)]))).row).toMatchObject({ reward: 0, count: 4 });
});

describe("RESERVED: a model that seeds itself", () => {
  const cheat = { initial_count: 6, expected_count: 6 };

  test.each(["seed_session", "ng-rollout/x/seed_session"])("by %s is refused, and keeps its episode", async (name) => {
    const url = await serving();
    const cheated = await simpleAgent(url, row, inTurn([{ name, arguments: cheat }]));
    expect(cheated.statuses).toEqual([409]);
    expect(cheated.row).toMatchObject({ reward: 0, count: 3, holdfast: { reseeds: 0 } });
    expect(cheated.row).not.toHaveProperty("mask_sample");
    const honest = await simpleAgent(url, row, inTurn([{ name, arguments: cheat }, add(3)]));
    expect(honest.row).toMatchObject({ reward: 1, holdfast: { episode: 1 } });
  });

  test("learns nothing about the fields of the task", async () => {
    const { outputs } = await simpleAgent(await serving(), row, inTurn([{ name: "seed_session", arguments: {} }]));
    expect(outputs.join("")).not.toContain("expected_count");
  });

  test("is refused also after a verdict", async () => {
    const calls = [{ name: "verify" }, { name: "seed_session", arguments: cheat }];
    const cheated = await simpleAgent(await serving(), row, inTurn(calls));
    expect(cheated.statuses).toEqual([200, 409]);
    expect(cheated.row).toMatchObject(masked);
  });

  test("has its row masked if the environment allows it", async () => {
    const url = await serving({ environments: [{ ...counter, reseed: "replace" }] });
    const cheated = await simpleAgent(url, row, inTurn([{ name: "seed_session", arguments: cheat }]));
    expect(cheated.statuses).toEqual([200]);
    expect(cheated.row).toMatchObject({ ...row, ...masked, failure_reason: otherTask });
  });

  test("has its row masked if it adds a field that makes the task easier", async () => {
    const url = await serving({ environments: [{ ...counter, reseed: "replace" }] });
    const easy = { initial_count: 3, expected_count: 6, tolerance: 100 };
    const cheated = await simpleAgent(
      url,
      { ...row, tolerance: 0 },
      inTurn([{ name: "seed_session", arguments: easy }]),
    );
    expect(cheated.row).toMatchObject({ ...masked, failure_reason: otherTask });
  });
});

describe("RESERVED: a model that asks for its reward", () => {
  test("and then plays on has its row masked", async () => {
    const url = await serving();
    let told = 0;
    const cheated = await simpleAgent(url, row, (output, turn) => {
      if (turn % 2 === 0) return turn > 12 || told === 1 ? undefined : { name: "verify" };
      told = (JSON.parse(output ?? "") as { reward: number }).reward;
      return told === 1 ? undefined : add(1);
    });
    expect(told).toBe(1);
    expect(cheated.row).toMatchObject({ ...masked, failure_reason: expect.stringContaining("was already verified") });
  });

  test("with a row that it made up cannot choose the task to be judged by", async () => {
    const guess = { responses_create_params: {}, initial_count: 3, expected_count: 3, response: { output: [] } };
    const cheated = await simpleAgent(await serving(), row, inTurn([{ name: "verify", arguments: guess }]));
    expect(JSON.parse(cheated.outputs[0] ?? "")).toMatchObject({ reward: 0, mask_sample: true });
    expect(cheated.row).toMatchObject(masked);
  });

  describe("with a row that it made up to read the task", () => {
    const quiz = defineEnvironment({
      name: "quiz",
      state: z.object({ said: z.string().default("") }),
      task: z.object({ question: z.string(), answer: z.string(), hint: z.string().optional() }),
      tools: {
        say: tool({
          description: "Say.",
          input: z.object({ text: z.string() }),
          run: ({ state }, { text }) => {
            state.said = text;
          },
        }),
      },
      verify: ({ state, task }) => Number(state.said === task.answer),
    });
    const { responses_create_params } = row;
    const asked = { responses_create_params, question: "Which?", answer: "SECRET-42" };
    const say = { name: "say", arguments: { text: "SECRET-42" } };

    test.each([
      ["another value", { responses_create_params: {}, answer: "x" }],
      ["an invalid value", { responses_create_params: {}, answer: 5 }],
      ["another field of the task", { responses_create_params: {}, hint: "x" }],
    ])("learns nothing by %s, and its row is masked", async (_, guess) => {
      const url = await serving({ environments: [quiz] });
      const cheated = await simpleAgent(url, asked, inTurn([{ name: "verify", arguments: guess }, say]));
      const { failure_reason, _ng_failure_reason, ...told } = JSON.parse(cheated.outputs[0] ?? "");
      expect([failure_reason, _ng_failure_reason]).toEqual([otherTask, otherTask]);
      expect(told).toEqual({ ...guess, ...masked, failure_kind: "verify" });
      expect(cheated.row).toMatchObject({ ...masked, failure_reason: expect.stringContaining("was already verified") });
      const honest = await simpleAgent(url, asked, inTurn([say]));
      expect(honest.row).toMatchObject({ reward: 1, holdfast: { verdicts: 1 } });
      expect(honest.row).not.toHaveProperty("mask_sample");
    });

    test("has its row masked also if its bare body is invalid, and in another process", async () => {
      const store = memoryStore();
      const [one, two] = [
        gymOf(createSessions({ environment: quiz, store })),
        gymOf(createSessions({ environment: quiz, store })),
      ];
      const client = new StrictClient(one);
      const seeded = (await client.post("/seed_session", asked)).json as { session_id: string };
      const before = client.cookie;
      expect((await client.post("/verify", { answer: 5 })).status).toBe(422);
      const agent = new StrictClient(two, before);
      await agent.post("/say", say.arguments);
      for (const response of [{}, {}, undefined]) {
        expect((await agent.post("/verify", { ...asked, response })).json).toMatchObject(masked);
      }
      const state = await createSessions({ environment: quiz, store }).state(seeded.session_id);
      expect(state).toEqual({ said: "SECRET-42" });
    });
  });

  test("PURE-VERIFY: an agent whose verdict was lost gets it again", async () => {
    const client = new StrictClient(gymOf(createSessions({ environment: counter, store: memoryStore() })));
    await client.post("/seed_session", row);
    await client.post("/add", { by: 3 });
    const first = await client.post("/verify", { ...row, response: { output: [] } });
    const again = await client.post("/verify", { ...row, response: { output: [] } });
    expect(again.json).toEqual(first.json);
    expect(again.json).toMatchObject({ reward: 1 });
    await client.post("/verify", { ...row, response: { output: ["other"] } });
    // It asked first.
    expect((await client.post("/verify", { ...row, response: { output: [] } })).json).toMatchObject({ reward: 1 });
  });
});

describe("RESERVED: a model that names a path of another protocol", () => {
  const models = new Map([
    ["adder", () => () => scriptedModel([{ calls: [{ name: "add", arguments: { by: 3 } }] }, "Done."])],
  ]);
  const runner = {
    agentFor: () => defineAgent({ name: "agent", model: scriptedModel(["Done."]) }),
    prepare: (given: Record<string, never>) => given,
  };
  const greeter = defineAgent({ name: "greeter", model: scriptedModel(["Hello."]) });

  test.each([
    ["v1/sessions/ID/play", { model: "adder" }],
    ["v1/sessions/ID/call", { tool: "add", input: { by: 3 } }],
    ["v1/sessions/ID/seed", { task: { initial_count: 6, expected_count: 6 } }],
    ["v1/sessions", { task: { initial_count: 6, expected_count: 6 } }],
    ["counter/v1/sessions/ID/play", { model: "adder" }],
    ["greeter/v1/sessions", {}],
    ["ng-rollout/x/v1/sessions", {}],
    ["run", row],
    ["ng-rollout/x/run", row],
  ])("is refused by %s, and keeps its session", async (name, body) => {
    const url = await serving({
      models: models as never,
      runners: new Map([["counter", runner as never]]),
      agents: [greeter],
    });
    let session = "";
    const cheated = await simpleAgent(url, row, (output, turn) => {
      if (turn === 0) return add(1);
      if (turn > 1) return turn === 2 ? add(2) : undefined;
      session = /"session_id":"([^"]+)"/.exec(output ?? "")?.[1] ?? "unknown";
      return { name: name.replace("ID", session), arguments: body };
    });
    expect(cheated.statuses).toEqual([200, 404, 200]);
    expect(cheated.outputs[1]).toContain("unknown_tool");
    expect(cheated.row).toMatchObject({ reward: 1, count: 6 });
  });

  test("other clients reach them, and browsers that have the cookie too", async () => {
    const url = await serving({ models: models as never });
    const json = { "content-type": "application/json" };
    const post = (path: string, body: unknown, headers = {}) =>
      fetch(url + path, { method: "POST", headers: { ...json, ...headers }, body: JSON.stringify(body) });
    const seeded = await post("/seed_session", row);
    const cookie = seeded.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    const { session_id: session } = (await seeded.json()) as { session_id: string };
    expect((await post(`/v1/sessions/${session}/call`, { tool: "add", input: { by: 1 } })).status).toBe(200);
    expect((await post("/v1/sessions", {}, { cookie })).status).toBe(404);
    expect((await post("/v1/sessions", {}, { cookie, "sec-fetch-site": "same-origin" })).status).toBe(201);
    expect((await post("/v1/sessions", {}, { cookie: "holdfast_counter=forged" })).status).toBe(201);
    expect((await fetch(`${url}/v1/sessions/${session}`, { headers: { cookie } })).status).toBe(200);
  });
});

describe("SCORED: a row that fails does not end a collection", () => {
  test.each([
    ["an invalid task", { initial_count: "oops" }, "task", "initial_count"],
    ["a seed that throws", { initial_count: 13 }, "verify", "never seeded"],
    ["a verify that throws", { expected_count: 13 }, "verify", "no verdict"],
  ])("%s is answered with a masked row", async (_, fields, kind, reason) => {
    const ran = await simpleAgent(await serving(), { ...row, ...fields }, inTurn([add(3)]));
    expect(ran.row).toMatchObject({ ...row, ...fields, reward: 0, mask_sample: true, _ng_failure_class: kind });
    expect(ran.row["failure_reason"]).toContain(reason);
    expect(ran.row["_ng_failure_terminal"]).toBe(kind === "task" ? true : undefined);
    if (!("expected_count" in fields)) expect(ran.statuses).toEqual([409]);
  });

  test("a failed seed tells its reason, and a bare body gets the status of its error", async () => {
    const url = await serving();
    const seed = async (body: object) => {
      const headers = { "content-type": "application/json" };
      const reply = await fetch(`${url}/seed_session`, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: reply.status, body: (await reply.json()) as Record<string, unknown> };
    };
    expect(await seed({ ...row, initial_count: 13 })).toMatchObject({
      status: 200,
      body: { mask_sample: true, _ng_failure_class: "seed", failure_reason: expect.stringContaining("unlucky") },
    });
    expect(await seed({ initial_count: 13, expected_count: 6 })).toMatchObject({ status: 500 });
    expect(await seed({ initial_count: "oops" })).toMatchObject({ status: 422 });
  });
});

describe("MISSING: a tool call on a lost session", () => {
  test("is refused: it does not read as a valid state", async () => {
    const client = new StrictClient(gymOf(createSessions({ environment: counter, store: memoryStore() })));
    const refused = { status: 409, json: { error: { code: "session_unseeded" } } };
    expect(await client.post("/add", { by: 1 })).toMatchObject(refused);
    await client.post("/seed_session", row);
    expect((await client.post("/add", { by: 1 })).json).toEqual({ count: 4 });
    client.cookie = undefined;
    expect(await client.post("/add", { by: 1 })).toMatchObject(refused);
  });

  test("is refused also if a seed under a key has failed, and in another process", async () => {
    const store = memoryStore();
    const [one, two] = [
      gymOf(createSessions({ environment: counter, store })),
      gymOf(createSessions({ environment: counter, store })),
    ];
    const client = new StrictClient(one);
    await client.post("/seed_session", { ...row, initial_count: 13 }, { "idempotency-key": "seed" });
    client.protocol = two;
    expect(await client.post("/add", { by: 1 })).toMatchObject({ json: { error: { code: "session_unseeded" } } });
    // A cookie from before the seed finds the session in any process.
    const late = new StrictClient(one);
    await late.get("/");
    const before = late.cookie;
    await late.post("/seed_session", row);
    const other = new StrictClient(two, before);
    expect((await other.post("/add", { by: 1 })).json).toEqual({ count: 4 });
    const last = new StrictClient(gymOf(createSessions({ environment: counter, store })), before);
    expect((await last.post("/verify", { ...row, response: {} })).json).toMatchObject({ reward: 0, count: 4 });
  });
});

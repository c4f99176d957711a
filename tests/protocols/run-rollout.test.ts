// POST /run: Holdfast as the agent of a third-party collector, on a real port.
import { defineAgent, defineEnvironment, memoryStore, scriptedModel, tool, type Json } from "holdfast";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Model } from "../../src/core/model.ts";
import type { Rollout, TaskRow } from "../../src/core/rollout.ts";
import { runProtocol } from "../../src/protocols/run-rollout.ts";
import { serve } from "../../src/server/serve.ts";
import { gather } from "./foreign-collector.ts";
import { requestOf } from "./gym-client.ts";

const counter = defineEnvironment({
  name: "counter",
  state: z.object({ count: z.number().default(0) }),
  task: z.object({ initial_count: z.number(), expected_count: z.number(), broken: z.boolean().default(false) }),
  seed: ({ task }) => ({ count: task.initial_count }),
  tools: {
    add: tool({
      description: "Add to the counter.",
      input: z.object({ count: z.number() }),
      run: ({ state }, { count }) => (state.count += count),
    }),
  },
  verify: ({ state, task }) => {
    if (task.broken) throw new Error("the judge is away");
    return { reward: Number(state.count === task.expected_count), final_count: state.count };
  },
});

const row = (fields: TaskRow = {}): TaskRow => ({
  responses_create_params: { input: [{ role: "user", content: "Add 3." }] },
  initial_count: 1,
  expected_count: 4,
  ...fields,
});

const tools: Json = [{ type: "function", name: "add", parameters: { type: "object", properties: {} } }];

/** Adds three, unless it is told to fail. */
const adding: Model = scriptedModel(({ input }) => {
  if (JSON.stringify(input).includes("fail")) throw new Error("the model is away");
  if (JSON.stringify(input).includes("for ever")) return { calls: [{ name: "add", arguments: { count: 1 } }] };
  return input.length === 1 ? { calls: [{ name: "add", arguments: { count: 3 } }] } : "Done.";
});

async function served(
  model = adding,
  callbacks: Parameters<typeof defineAgent>[0]["callbacks"] = {},
  store = memoryStore(),
): Promise<string> {
  const runner = {
    agentFor: () => defineAgent({ name: "agent", model, callbacks, limits: { steps: 4 } }),
    prepare({ responses_create_params: params, ...rest }: TaskRow): TaskRow {
      if (rest["initial_count"] === undefined) throw new Error("the task has no initial_count");
      return { ...rest, responses_create_params: { ...(params as TaskRow), tools } };
    },
  };
  const serving = await serve({
    environments: [counter],
    store,
    port: 0,
    log: { what: "none" },
    runners: new Map([["counter", runner]]),
  });
  onTestFinished(() => serving.close());
  return serving.url;
}

test("ISOLATION: two rollouts of POST /run do not see each other's `user:` and `app:` state", async () => {
  const seen: unknown[] = [];
  const url = await served(adding, {
    beforeAgent({ state }) {
      seen.push(state["user:notes"] ?? state["app:notes"] ?? "nothing");
      state["user:notes"] = state["app:notes"] = "a secret";
    },
  });
  await gather(url, [row()], 2);
  expect(seen).toEqual(["nothing", "nothing"]);
});

const saying = (content: string): TaskRow => row({ responses_create_params: { input: content } });

test("a third-party collector gets its rows played, scored and counted", async () => {
  const url = await served();
  const { rows, failures, metrics } = await gather(url, [row(), row({ expected_count: 9 })], 3);
  expect(failures).toEqual([]);
  expect(rows.map(({ reward, final_count }) => [reward, final_count])).toEqual([
    ...[1, 1, 1].map((reward) => [reward, 4]),
    ...[0, 0, 0].map((reward) => [reward, 4]),
  ]);
  expect(new Set(rows.map(({ session_id }) => session_id)).size).toBe(6);
  expect(rows[0]).toMatchObject({
    initial_count: 1,
    responses_create_params: { tools },
    response: {
      output: [
        { type: "function_call", name: "add" },
        { type: "function_call_output", output: "4" },
        { type: "message", role: "assistant" },
      ],
      usage: { total_tokens: expect.any(Number) as number, input_tokens_details: { cached_tokens: 0 } },
    },
  });
  expect(metrics.agent_metrics).toMatchObject({ "mean/reward": 0.5 });
  expect(metrics.group_level_metrics.length).toBe(2);
  // The environment is served too, with each episode.
  expect(await (await fetch(`${url}/counter/reverify_mode`)).json()).toBe("unsupported");
  const session = await fetch(`${url}/v1/sessions/${String(rows[0]?.["session_id"])}`);
  expect(session.status).toBe(200);
});

test("SCORED: a failed rollout is not a row of the collection, and does not end it", async () => {
  const tasks = [row(), saying("fail"), row({ broken: true }), saying("for ever"), { note: "no task" }, row()];
  const { rows, failures } = await gather(await served(), tasks as TaskRow[]);
  expect(rows.map(({ _ng_task_index: task, reward, stopped }) => [task, reward, stopped])).toEqual([
    [0, 1, undefined],
    [3, 0, "steps"],
    [5, 1, undefined],
  ]);
  const told = failures.map((failure) => [
    failure["_ng_task_index"],
    failure["_ng_failure_class"],
    failure["_ng_failure_terminal"],
    failure["reward"],
    failure["mask_sample"],
  ]);
  expect(told).toEqual([
    [1, "model", undefined, 0, true],
    [2, "verify", undefined, 0, true],
    [4, "task", true, 0, true],
  ]);
  expect(failures[0]?.["_ng_failure_reason"]).toContain("the model is away");
  // With its transcript.
  expect(failures[1]).toMatchObject({ response: { output: [{ name: "add" }, {}, {}] } });
});

test("CLEANUP: a rollout's conversation ends with it, even if the rollout fails", async () => {
  const store = memoryStore();
  const url = await served(adding, {}, store);
  await gather(url, [row(), saying("fail"), row({ broken: true })]);
  for await (const { session } of store.list({ environment: "agent:rollouts", open: true })) {
    expect.fail(`the conversation ${session} is still open`);
  }
});

test("a disconnecting client ends its rollout", async () => {
  const gone = new AbortController();
  const cancelled = new Promise<void>((resolve) => {
    const url = served({
      name: "slow",
      respond(_, options) {
        options?.signal?.addEventListener("abort", () => resolve());
        gone.abort();
        return new Promise(() => undefined);
      },
    });
    const body = JSON.stringify(row());
    const headers = { "content-type": "application/json" };
    void url
      .then((at) => fetch(`${at}/run`, { method: "POST", headers, body, signal: gone.signal }))
      .catch(() => undefined);
  });
  await cancelled;
});

function protocolOf(played: { stopped?: string } = {}, seen: Rollout[] = []) {
  return runProtocol({
    play(rollout) {
      seen.push(rollout);
      return Promise.resolve({ outcome: "scored", fields: { reward: 1 }, session: "episode", ...played });
    },
    prepare: (given) => given,
    newSession: () => "conversation",
  });
}

test("a rollout is identified by its numbers, and all repeats of a task have the same random seed", async () => {
  const seen: Rollout[] = [];
  const protocol = protocolOf({ stopped: "steps" }, seen);
  const numbers = { _ng_task_index: 7, _ng_rollout_index: 2, _ng_attempt_index: 1 };
  const reply = await protocol.handle(requestOf({ path: "/ng-rollout/7-2-a1/run", body: numbers }));
  await protocol.handle(requestOf({ path: "/run", body: { ...numbers, _ng_attempt_index: 2 } }));
  await protocol.handle(requestOf({ path: "/run", body: { _ng_task_index: "x" } }));
  expect(reply).toEqual({
    status: 200,
    about: { session: "episode", rollout: "7-2-a1" },
    body: { ...numbers, reward: 1, session_id: "episode", stopped: "steps" },
  });
  expect(seen.map(({ task, repeat, attempt }) => [task, repeat, attempt])).toEqual([
    [7, 2, 1],
    [7, 2, 2],
    [0, 0, 0],
  ]);
  expect(seen[0]?.random).toBe(seen[1]?.random);
  const seedOf = async (body: object): Promise<number | undefined> => {
    await protocol.handle(requestOf({ path: "/run", body }));
    return seen.at(-1)?.random;
  };
  expect(await seedOf({ ...numbers, _ng_rollout_index: 5 })).toBe(seen[0]?.random);
  expect(await seedOf({ ...numbers, _ng_task_index: 8 })).not.toBe(seen[0]?.random);
  expect(await seedOf({ ...numbers, _holdfast_random_seed: 11 })).toBe(11);
  const refused = await protocol.handle(requestOf({ path: "/run", body: { _holdfast_random_seed: "x" } }));
  expect(refused).toMatchObject({ status: 200, body: { _ng_failure_class: "task", mask_sample: true } });
});

test("only a row posted to /run is played", async () => {
  const protocol = protocolOf();
  expect(await protocol.handle(requestOf({ path: "/runs", body: {} }))).toBeUndefined();
  expect(await protocol.handle(requestOf({ path: "/verify", body: {} }))).toBeUndefined();
  for (const body of [undefined, [], "row"]) {
    await expect(protocol.handle(requestOf({ path: "/run", body }))).rejects.toMatchObject({ code: "invalid_task" });
  }
  const reading = protocol.handle(requestOf({ method: "GET", path: "/run" }));
  await expect(reading).rejects.toMatchObject({ code: "method_not_allowed" });
});

test("without a runner there is no /run, and no environment has a tool of that name", async () => {
  const legs = (): unknown =>
    defineEnvironment({ name: "legs", tools: { run: tool({ description: "Run.", run: () => "ran" }) } });
  expect(legs).toThrow('the tool name "run" in legs is reserved');
  const environment = defineEnvironment({ name: "legs", tools: {} });
  const serving = await serve({ environments: [environment], store: memoryStore(), port: 0, log: { what: "none" } });
  onTestFinished(() => serving.close());
  expect((await fetch(`${serving.url}/run`, { method: "POST" })).status).toBe(404);
});

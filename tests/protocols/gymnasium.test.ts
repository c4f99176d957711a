// NeMo Gym's gymnasium agents: reset, step and close, on top of the gym protocol.
import { defineEnvironment, memoryStore, tool, type AnyEnvironment } from "holdfast";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { served, type Loose } from "./openenv-client.ts";

const counterOf = ({ isBroken = false } = {}) =>
  defineEnvironment({
    name: "counter",
    state: z.object({ count: z.number().default(0) }),
    task: z.object({ start: z.number(), goal: z.number() }),
    seed: ({ task }) => ({ count: task.start }),
    tools: {
      add: tool({
        description: "Add to the counter.",
        input: z.object({ by: z.number().int() }),
        run: ({ state }, { by }) => ({ count: (state.count += by) }),
      }),
    },
    verify: ({ state, task, response }) => {
      if (isBroken) throw new Error("the judge is ill");
      return { reward: Number(state.count === task.goal), said: response ?? null };
    },
  });

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function agentOf(environment: AnyEnvironment = counterOf()) {
  const server = await served([environment], memoryStore());
  closing.push(() => server.close());
  let cookie = "";
  const ask = async (path: string, body: unknown): Promise<{ status: number; body: Loose }> => {
    const headers = { "content-type": "application/json", ...(cookie && { cookie }) };
    const reply = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    [cookie = cookie] = reply.headers.get("set-cookie")?.split(";") ?? [];
    return { status: reply.status, body: (await reply.json()) as Loose };
  };
  return { ask, forget: () => (cookie = "") };
}

const row = { start: 1, goal: 4, responses_create_params: { input: "Count to 4." } };
const calls = (...given: [name: string, input: unknown][]) => ({
  output: given.map(([name, input], at) => ({
    type: "function_call",
    call_id: `c${at}`,
    name,
    arguments: typeof input === "string" ? input : JSON.stringify(input),
  })),
});

test("an agent resets, steps through tool calls, and ends with a reward", async () => {
  const { ask } = await agentOf();
  expect((await ask("/reset", row)).body).toEqual({
    observation: null,
    info: { supports_explicit_close: true, supports_step_idempotency: true },
  });
  const response = calls(["add", { by: 1 }], ["add", { by: "x" }], ["nope", {}], ["add", "{bad"], ["add", { by: 2 }]);
  const { status, body } = await ask("/step", { ...row, response });
  expect([status, body.reward, body.terminated, body.truncated]).toEqual([200, 0, false, false]);
  const outputs = body.info.tool_outputs as { call_id: string; output: string }[];
  expect(outputs.map(({ call_id }) => call_id)).toEqual(["c0", "c1", "c2", "c3", "c4"]);
  expect(
    outputs.map(({ output }) => JSON.parse(output) as Loose).map(({ count, error }) => count ?? error.code),
  ).toEqual([2, "invalid_input", "unknown_tool", "invalid_input", 4]);
  const message = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }] };
  const last = (await ask("/step", { ...row, response: { output: [message] } })).body;
  expect(last).toMatchObject({ reward: 1, terminated: true, truncated: false, info: { said: { output: [message] } } });
  expect(last.info).not.toHaveProperty("goal");
  expect((await ask("/close", {})).body).toEqual({ closed: true });
});

test.each(["a1", 7])("a step that is repeated with its id, %j, is applied once", async (id) => {
  const { ask } = await agentOf();
  await ask("/reset", row);
  const step = { ...row, response: calls(["add", { by: 1 }], ["add", { by: 1 }]), _ng_step_request_id: id };
  expect((await ask("/step", { ...step, _ng_step_request_id: [id] })).body.error.code).toBe("invalid_option");
  const first = await ask("/step", step);
  expect(await ask("/step", step)).toEqual(first);
  const next = await ask("/step", { ...step, _ng_step_request_id: "a2" });
  expect(JSON.parse(next.body.info.tool_outputs[1].output as string)).toEqual({ count: 5 });
});

test("a failure that is not the model's has an error status", async () => {
  const { ask, forget } = await agentOf();
  expect((await ask("/reset", { ...row, start: "x" })).status).toBe(422);
  forget();
  expect((await ask("/reset", [1])).status).toBe(422);
  expect((await ask("/step", { ...row, response: calls(["add", { by: 1 }]) })).status).toBe(409);
  await ask("/reset", row);
  // The model cannot reset its own episode.
  expect((await ask("/reset", row)).status).toBe(409);
  await ask("/close", {});
  expect((await ask("/step", { ...row, response: calls(["add", { by: 1 }]) })).status).toBeGreaterThanOrEqual(404);
});

test("RESERVED: a model cannot seed, verify or close by naming a tool so, and the reward stays hidden", async () => {
  const { ask } = await agentOf();
  await ask("/reset", row);
  const response = calls(
    ["verify", {}],
    ["verify", { goal: 1 }],
    ["seed_session", row],
    ["close_session", {}],
    ["v1", {}],
  );
  const { status, body } = await ask("/step", { response });
  expect(status).toBe(200);
  for (const { output } of body.info.tool_outputs as { output: string }[]) {
    expect(JSON.parse(output)).toMatchObject({ error: { code: "unknown_tool" } });
  }
  expect((await ask("/step", { ...row, response: calls(["add", { by: 3 }]) })).status).toBe(200);
  expect((await ask("/step", { ...row, response: {} })).body).toMatchObject({ reward: 1, terminated: true });
});

test("SCORED: a verify that throws is an error, not a reward of 0", async () => {
  const { ask } = await agentOf(counterOf({ isBroken: true }));
  await ask("/reset", row);
  const { status, body } = await ask("/step", { ...row, response: {} });
  expect([status, body.error?.code]).toEqual([500, "verify_failed"]);
});

test("two calls with one id in a step are two calls", async () => {
  const { ask } = await agentOf();
  await ask("/reset", row);
  const [first] = calls(["add", { by: 2 }]).output;
  const { body } = await ask("/step", { ...row, response: { output: [first, first] }, _ng_step_request_id: "s" });
  const outputs = body.info.tool_outputs as { output: string }[];
  expect(outputs.map(({ output }) => JSON.parse(output) as unknown)).toEqual([{ count: 3 }, { count: 5 }]);
});

test("a call without a valid name gets an answer", async () => {
  const { ask } = await agentOf();
  await ask("/reset", row);
  const odd = { type: "function_call", call_id: { toString: 1 }, name: { toString: 1 }, arguments: "{}" };
  expect((await ask("/step", { ...row, response: { output: [odd] } })).status).toBeLessThan(500);
});

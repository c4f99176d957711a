// Invalid values from authors' code and models: they are refused on arrival, and the conversation continues.
import {
  answerText,
  createSessions,
  defineAgent,
  defineEnvironment,
  environmentTools,
  loop,
  memoryStore,
  run,
  scriptedModel,
  tool,
  type Agent,
  type Model,
  type ModelRequest,
  type RunEvent,
  type RunOptions,
} from "holdfast";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { responsesApi } from "../../src/models/openai.ts";

const engine = () => createSessions({ app: "odd", store: memoryStore() });

async function all(agent: Agent, options: RunOptions): Promise<{ events: RunEvent[]; outcome: string }> {
  const events: RunEvent[] = [];
  const running = run(agent, { ...options, throwOnFailure: false });
  for (;;) {
    const { value, done } = await running.next();
    if (done) return { events, outcome: value.outcome };
    events.push(value);
  }
}

const failures = (events: RunEvent[]): unknown[] =>
  events.flatMap((event) => (event.type === "agent.failed" ? [event.error.code] : []));

const sane = defineAgent({ name: "agent", model: scriptedModel(() => "fine") });
const giving = (output: unknown): Model => ({
  name: "odd",
  respond: () => Promise.resolve({ status: "completed", output } as never),
});

describe("values that are neither text nor items", () => {
  const values: unknown[] = [{}, 5, true, null, 0, { output: [] }, [null], [{ type: "message", role: "user" }], [{}]];

  test.each(values)("%j from callbacks fails the step, and the next turn works", async (value) => {
    for (const hook of ["beforeAgent", "afterAgent", "beforeModel", "afterModel"] as const) {
      if (hook.endsWith("Model") && JSON.stringify(value) === '{"output":[]}') continue;
      const sessions = engine();
      const { session } = await sessions.open();
      const odd = defineAgent({ name: "agent", model: sane.model, callbacks: { [hook]: () => value as never } });
      const { events, outcome } = await all(odd, { sessions, session, message: "hi" });
      expect([hook, outcome, failures(events)]).toEqual([hook, "failed", ["callback_failed"]]);
      expect((await all(sane, { sessions, session, message: "again" })).outcome).toBe("answered");
    }
  });

  test.each([undefined, "text", {}, ["x"], [{}], [{ type: "message", role: "user" }], [{ type: "function_call" }]])(
    "an answer of %j is the model's failure, which a callback may correct",
    async (output) => {
      const sessions = engine();
      const { session } = await sessions.open();
      const odd = defineAgent({ name: "agent", model: giving(output) });
      const { events } = await all(odd, { sessions, session, message: "hi" });
      expect(failures(events)).toEqual(["model_failed"]);
      const mended = { ...odd, callbacks: { onModelError: () => "sorry" } };
      expect((await all(mended, { sessions, session, message: "hi" })).outcome).toBe("answered");
      expect((await all(sane, { sessions, session, message: "again" })).outcome).toBe("answered");
    },
  );

  test.each([null, 5, {}, [null], [{ role: "user", content: "x" }], [{ type: "message", role: "user" }]])(
    "the message %j is refused, and nothing is stored",
    async (message) => {
      const sessions = engine();
      const { session, version } = await sessions.open();
      const refused = expect(all(sane, { sessions, session, message: message as never })).rejects;
      await refused.toMatchObject({ code: "invalid_option" });
      expect((await sessions.info(session)).version).toBe(version);
    },
  );

  test("a saved session that was edited by hand is refused, and leaves nothing behind", async () => {
    const sessions = engine();
    const { session } = await sessions.open();
    await all(sane, { sessions, session, message: "hi" });
    const saved = await sessions.save(session);
    const [opened, ...rest] = saved.events;
    const changed: unknown[] = [
      { ...saved, user: "somebody else" },
      { ...saved, events: rest },
      { ...saved, events: [opened, { type: "shared.changed", at: 1, session: "x", delta: [] }] },
      { ...saved, events: saved.events.map((event) => ("items" in event ? { ...event, items: {} } : event)) },
      { ...saved, events: [opened, { ...rest[0], delta: [{ op: "remove", path: "/nothing" }] }] },
      { ...saved, events: [opened, { ...rest[0], delta: 5 }] },
    ];
    for (const one of changed) {
      await expect(sessions.restore(one as never, "restored")).rejects.toMatchObject({ code: "invalid_option" });
    }
    await sessions.restore(saved, "restored");
    expect(await sessions.state("restored")).toEqual(await sessions.state(session));
  });
});

test("ONCE: calls with the same id, or with none, are different calls", async () => {
  const counter = defineEnvironment({
    name: "counter",
    state: z.object({ count: z.number().default(0) }),
    tools: { add: tool({ description: "Add one.", run: ({ state }) => ++state.count }) },
  });
  const episodes = createSessions({ environment: counter, store: memoryStore() });
  const call = (call_id: unknown) => ({ type: "function_call", name: "add", arguments: "{}", call_id });
  const done = { type: "message", role: "assistant", content: "done" };
  const answers = [[call("a"), call("a"), call(undefined), call("")], [call("a")], [done]];
  let at = 0;
  const model: Model = {
    name: "odd",
    respond: () => Promise.resolve({ status: "completed", output: answers[at++] as never }),
  };
  const sessions = engine();
  const { session } = await sessions.open();
  const agent = defineAgent({ name: "agent", model, toolsets: [environmentTools(episodes)] });
  const { events, outcome } = await all(agent, { sessions, session, message: "go" });
  expect(outcome).toBe("answered");
  const outputs = events.flatMap((event) => (event.type === "tools.answered" ? event.items : []));
  expect(outputs.map((item) => item["output"])).toEqual(["1", "2", "3", "4", "5"]);
  expect(new Set(outputs.map((item) => item["call_id"])).size).toBe(5);
});

test("agents that transfer to each other end, and let others run", async () => {
  const handOver = (to: string) =>
    scriptedModel(() => ({ calls: [{ name: "transfer_to_agent", arguments: { agent: to } }] }));
  const ping = defineAgent({
    name: "ping",
    model: handOver("pong"),
    agents: [defineAgent({ name: "pong", model: handOver("ping") })],
  });
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 0);
  const { outcome, events } = await all(ping, { sessions: engine(), message: "go" });
  clearInterval(ticking);
  expect(outcome).toBe("steps");
  expect(events.length).toBeLessThan(100);
  expect(ticks).toBeGreaterThan(0);
});

test("a reader that reads no further does not keep the session once it is aborted", async () => {
  const sessions = engine();
  const { session } = await sessions.open();
  const stopping = new AbortController();
  await run(sane, { sessions, session, message: "hi", signal: stopping.signal }).next();
  stopping.abort();
  expect((await all(sane, { sessions, session, message: "again" })).outcome).toBe("answered");
});

test("calls that a limit left without a result get one in the next round", async () => {
  const requests: ModelRequest[] = [];
  const model: Model = {
    name: "slow",
    respond(request) {
      requests.push(structuredClone(request));
      return scriptedModel(() => ({ calls: [{ name: "wait" }] })).respond(request);
    },
  };
  const wait = tool({ description: "Waits.", concurrent: true, run: () => new Promise<never>(() => undefined) });
  const worker = defineAgent({ name: "worker", model, tools: { wait }, limits: { seconds: 0.5 } });
  await all(loop({ name: "again", agents: [worker], times: 2 }), { sessions: engine(), message: "go" });
  const types = requests.at(-1)?.input.map(({ type }) => type);
  expect(types).toEqual(["message", "function_call", "function_call_output"]);
});

test("OpenAI's own server receives only its own fields, and no ids of items it has not stored", () => {
  const input = [
    { type: "message", id: "msg_1", role: "assistant", content: "hi", token_ids: [1] },
    { type: "reasoning", id: "rs_1", summary: [] },
    { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "x", signature: "s" },
    { type: "anthropic.server_tool_use", block: {} },
    { type: "function_call", id: "fc_1", call_id: "c", name: "f", arguments: "{}", logprobs: [] },
    { type: "web_search_call", id: "ws_1" },
  ] as never;
  expect(responsesApi.body({ input }, { isPublic: true })["input"]).toEqual([
    { type: "message", role: "assistant", content: "hi" },
    { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "x" },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "web_search_call", id: "ws_1" },
  ]);
  expect(responsesApi.body({ input }, { isPublic: false })["input"]).toEqual(input);
  expect(answerText(input)).toBe("hi");
});

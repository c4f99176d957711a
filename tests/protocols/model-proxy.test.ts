// The recording model proxy: official clients of the three model APIs, repeats, limits, the end of an episode.
import { setTimeout as sleep } from "node:timers/promises";
import {
  HoldfastError,
  memoryStore,
  scriptedModel,
  type Item,
  type Model,
  type ModelRequest,
  type ScriptedAnswer,
} from "holdfast";
import type { NumberedEvent } from "../../src/core/event.ts";
import { describe, expect, test, vi } from "vitest";
import { anthropicModel } from "../../src/models/anthropic.ts";
import { requestFields, requestItems } from "../../src/core/model-exchange.ts";
import type OpenAI from "openai";
import type Anthropic from "@anthropic-ai/sdk";
import { gate } from "../agent/engine.ts";
import { json, play } from "../models/server.ts";
import { served } from "../server/serving.ts";
import { anthropic, openai, post, proxyReplica, type ProxyReplica } from "./proxy-client.ts";

/** Adds 2, adds 3, then says so. Keeps the requests that it got. */
function player(): Model & { asked: ModelRequest[] } {
  const asked: ModelRequest[] = [];
  const script = scriptedModel([
    { text: "First two.", calls: [{ name: "add", arguments: { by: 2 } }] },
    { calls: [{ name: "add", arguments: { by: 3 } }] },
    "It is 5.",
  ]);
  return {
    name: "scripted",
    asked,
    respond(request, options) {
      asked.push(request);
      return script.respond(request, options);
    },
  };
}

const addTool = { type: "object", properties: { by: { type: "integer" } }, required: ["by"] } as const;

async function exchanges({ sessions }: Pick<ProxyReplica, "sessions">, session: string) {
  const found: Extract<NumberedEvent, { type: "model.called" }>[] = [];
  for await (const event of sessions.events(session)) if (event.type === "model.called") found.push(event);
  return found;
}

type Play = (
  replica: ProxyReplica,
  token: string,
  run: (by: number, call: string) => Promise<string>,
) => Promise<string>;

/** Each plays an episode as a harness would: it sends the whole conversation each time. */
const plays: { [name: string]: Play } = {
  async responses(replica, token, run) {
    const client = openai(replica, token);
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ type: "function" as const, name: "add", parameters: addTool, strict: false }];
    for (;;) {
      const { output, output_text } = await client.responses.create({ model: "x", input, tools, temperature: 2 });
      input.push(...(output as OpenAI.Responses.ResponseInputItem[]));
      const calls = output.filter((item) => item.type === "function_call");
      if (calls.length === 0) return output_text;
      for (const { call_id, arguments: given } of calls) {
        const result = await run(JSON.parse(given).by, call_id);
        input.push({ type: "function_call_output", call_id, output: result });
      }
    }
  },
  async "responses, streamed"(replica, token, run) {
    const client = openai(replica, token);
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ type: "function" as const, name: "add", parameters: addTool, strict: false }];
    for (;;) {
      const stream = client.responses.stream({ model: "x", input, tools });
      const { output, output_text } = await stream.finalResponse();
      input.push(...(output as OpenAI.Responses.ResponseInputItem[]));
      const calls = output.filter((item) => item.type === "function_call");
      if (calls.length === 0) return output_text;
      for (const { call_id, arguments: given } of calls) {
        const result = await run(JSON.parse(given).by, call_id);
        input.push({ type: "function_call_output", call_id, output: result });
      }
    }
  },
  async chat(replica, token, run) {
    const client = openai(replica, token);
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ type: "function" as const, function: { name: "add", parameters: addTool } }];
    for (;;) {
      const { choices } = await client.chat.completions.create({ model: "x", messages, tools, logprobs: true });
      const { message } = choices[0]!;
      messages.push(message);
      if (!message.tool_calls) return message.content ?? "";
      for (const call of message.tool_calls) {
        if (call.type !== "function") continue;
        const result = await run(JSON.parse(call.function.arguments).by, call.id);
        messages.push({ role: "tool", tool_call_id: call.id, content: result });
      }
    }
  },
  async "chat, streamed"(replica, token, run) {
    const client = openai(replica, token);
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ type: "function" as const, function: { name: "add", parameters: addTool } }];
    for (;;) {
      const options = { model: "x", messages, tools, stream_options: { include_usage: true } };
      const stream = client.chat.completions.stream(options);
      const { choices, usage } = await stream.finalChatCompletion();
      expect(usage?.total_tokens).toBeGreaterThan(0);
      const { message } = choices[0]!;
      messages.push(message);
      if (!message.tool_calls?.length) return message.content ?? "";
      for (const call of message.tool_calls) {
        const result = await run(JSON.parse(call.function.arguments).by, call.id);
        messages.push({ role: "tool", tool_call_id: call.id, content: result });
      }
    }
  },
  async messages(replica, token, run) {
    const client = anthropic(replica, token);
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ name: "add", input_schema: addTool as unknown as Anthropic.Tool.InputSchema }];
    for (;;) {
      const { content } = await client.messages.create({ model: "x", max_tokens: 10, messages, tools });
      messages.push({ role: "assistant", content });
      const results: Anthropic.ToolResultBlockParam[] = [];
      for (const block of content) {
        if (block.type !== "tool_use") continue;
        const result = await run((block.input as { by: number }).by, block.id);
        results.push({ type: "tool_result", tool_use_id: block.id, content: result });
      }
      if (results.length === 0) return content.map((block) => (block.type === "text" ? block.text : "")).join("");
      messages.push({ role: "user", content: results });
    }
  },
  async "messages, streamed"(replica, token, run) {
    const client = anthropic(replica, token);
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Count to 5." }];
    const tools = [{ name: "add", input_schema: addTool as unknown as Anthropic.Tool.InputSchema }];
    for (;;) {
      const stream = client.messages.stream({ model: "x", max_tokens: 10, messages, tools });
      const { content } = await stream.finalMessage();
      messages.push({ role: "assistant", content });
      const results: Anthropic.ToolResultBlockParam[] = [];
      for (const block of content) {
        if (block.type !== "tool_use") continue;
        const result = await run((block.input as { by: number }).by, block.id);
        results.push({ type: "tool_result", tool_use_id: block.id, content: result });
      }
      if (results.length === 0) return content.map((block) => (block.type === "text" ? block.text : "")).join("");
      messages.push({ role: "user", content: results });
    }
  },
};

describe.each(Object.entries(plays))("the official client of %s", (_, play) => {
  test("plays an episode; the log has every exchange once, and each stores only its own items", async () => {
    const model = player();
    const replica = proxyReplica({ model, settings: { temperature: 0.5 } });
    const { session, token } = await replica.seeded();
    const said = await play(replica, token, async (by, call) => {
      const answer = await replica.sessions.call(session, "add", { by }, { call });
      return JSON.stringify(answer.ok && answer.output);
    });
    expect(said).toBe("It is 5.");
    expect(await replica.sessions.verify(session)).toMatchObject({ reward: 1 });
    expect(await replica.sessions.replay(session)).toMatchObject({ same: true });
    const found = await exchanges(replica, session);
    // The model and its settings are the server's.
    expect(model.asked.map(({ temperature }) => temperature)).toEqual([0.5, 0.5, 0.5]);
    expect(found.map(({ model }) => model)).toEqual(["scripted", "scripted", "scripted"]);
    const types = (items: Item[]): string[] => items.map(({ type }) => type);
    expect(found.map(({ input, output }) => [types(input), types(output)])).toEqual([
      [["message"], ["message", "function_call"]],
      [["function_call_output"], ["function_call"]],
      [["function_call_output"], ["message"]],
    ]);
    expect(found.map(({ request }) => Object.keys(request ?? {}))).toEqual([["tools"], [], []]);
    const find = (version: number) => found.find((event) => event.version === version);
    expect(types(requestItems(found[2]!, find))).toEqual(types(model.asked[2]!.input));
    expect(requestFields(found[2]!, find)["tools"]).toEqual(model.asked[2]!.tools);
    const { calls, tokens } = totals(found);
    expect(calls).toBe(3);
    expect(tokens).toBeGreaterThan(0);
  });
});

const totals = (found: { usage?: { total_tokens: number } }[]) => ({
  calls: found.length,
  tokens: found.reduce((sum, { usage }) => sum + (usage?.total_tokens ?? 0), 0),
});

const hello = { model: "x", messages: [{ role: "user", content: "Hello" }] };
const bodies = {
  responses: { path: "responses", body: { model: "x", input: "Hello" } },
  chat: { path: "chat/completions", body: hello },
  messages: { path: "messages", body: { ...hello, max_tokens: 10 } },
};

describe("repeats", () => {
  test("ONCE: a retry of the same body is answered from the log, on another replica and after the end too", async () => {
    let count = 0;
    const model = scriptedModel(() => `answer ${++count}`);
    const store = memoryStore();
    const [first, second] = [proxyReplica({ model, store }), proxyReplica({ model, store })];
    const { session, token } = await first.seeded();
    for (const [name, { path, body }] of Object.entries(bodies)) {
      const where = `/counter/m/${token}/v1/${path}`;
      const answered = await (await post(first, where, body)).json();
      const retried = await post(second, where, body, { "x-stainless-retry-count": "1" });
      expect(retried.headers.get("holdfast-repeated"), name).toBe("true");
      expect(await retried.json()).toEqual(answered);
    }
    // The three bodies ask the same question.
    expect(count).toBe(3);
    const where = `/counter/m/${token}/v1/responses`;
    // Without the mark of a retry, an equal request is a new one.
    await post(first, where, bodies.responses.body);
    expect(await exchanges(first, session)).toHaveLength(4);
    await first.sessions.verify(session);
    const late = await post(second, where, bodies.responses.body, { "x-stainless-retry-count": "2" });
    expect(late.status).toBe(200);
    expect(await exchanges(first, session)).toHaveLength(4);
  });

  test("ONCE: a key answers its own request again, and refuses another one", async () => {
    const replica = proxyReplica({ model: scriptedModel(["a", "b"]) });
    const { session, token } = await replica.seeded();
    const where = `/counter/m/${token}/v1/responses`;
    const key = { "idempotency-key": "k1" };
    const one = await (await post(replica, where, { input: "Hello" }, key)).json();
    expect(await (await post(replica, where, { input: "Hello" }, key)).json()).toEqual(one);
    const other = await post(replica, where, { input: "Goodbye" }, key);
    expect(other.status).toBe(409);
    expect(await other.json()).toMatchObject({ error: { code: "call_conflict" } });
    expect(await exchanges(replica, session)).toHaveLength(1);
  });

  test("the official clients retry a failure of the model, but not the end of an episode", async () => {
    let asked = 0;
    const model = scriptedModel(() => {
      if (++asked % 2 === 1) throw new HoldfastError("model_failed", "it is down");
      return "It is up.";
    });
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const options = { maxRetries: 1 };
    const first = await openai(replica, token, options).responses.create({ model: "x", input: "Hi" });
    expect(first.output_text).toBe("It is up.");
    const claude = anthropic(replica, token, options).messages;
    const body = { model: "x", max_tokens: 5, messages: [{ role: "user" as const, content: "Hi" }] };
    expect(await claude.create(body)).toMatchObject({ content: [{ text: "It is up." }] });
    expect([asked, (await exchanges(replica, session)).length]).toEqual([4, 2]);
    await replica.sessions.verify(session);
    await expect(openai(replica, token, options).responses.create({ model: "x", input: "?" })).rejects.toMatchObject({
      status: 409,
    });
    await expect(claude.create({ ...body, max_tokens: 6, system: "?" })).rejects.toMatchObject({ status: 409 });
    expect(asked).toBe(4);
  });

  test("a retry waits for the first request, also after that client left", async () => {
    let count = 0;
    const model: Model = {
      name: "slow",
      async respond() {
        count++;
        await sleep(60);
        return { output: [{ type: "message", role: "assistant", content: "done" }], status: "completed" };
      },
    };
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const where = `/counter/m/${token}/v1/responses`;
    const leaving = new AbortController();
    const left = replica
      .fetch(`http://localhost:8080${where}`, { method: "POST", body: '{"input":"Hi"}', signal: leaving.signal })
      .catch(() => "left");
    await sleep(10);
    leaving.abort();
    expect(await left).toBe("left");
    const again = await post(replica, where, { input: "Hi" }, { "x-stainless-retry-count": "1" });
    expect(await again.json()).toMatchObject({ status: "completed" });
    expect(count).toBe(1);
    expect(await exchanges(replica, session)).toHaveLength(1);
  });

  test("SERIAL: tools run while a model answers, and the order of the log is that of the commits", async () => {
    let finish = (): void => undefined;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const model: Model = {
      name: "slow",
      async respond() {
        await finished;
        return { output: [{ type: "message", role: "assistant", content: "done" }], status: "completed" };
      },
    };
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const asking = post(replica, `/counter/m/${token}/v1/responses`, { input: "Hi" });
    await sleep(5);
    await Promise.all(Array.from({ length: 5 }, () => replica.sessions.call(session, "add", { by: 1 })));
    finish();
    await asking;
    const events = [];
    for await (const { type } of replica.sessions.events(session)) events.push(type);
    expect(events.slice(-6)).toEqual([...Array.from({ length: 5 }, () => "tool.called"), "model.called"]);
    expect(await replica.sessions.verify(session)).toMatchObject({ reward: 1, version: 7 });
  });

  test("ONCE: a lost answer of a gym call is found although the model was asked in between", async () => {
    const replica = proxyReplica({ model: scriptedModel(() => "ok") });
    const { session, token } = await replica.seeded();
    const where = `/counter/m/${token}/v1/responses`;
    const { version: seen } = await replica.sessions.call(session, "add", { by: 1 });
    await post(replica, where, { input: "one" });
    const lost = await replica.sessions.call(session, "add", { by: 2 }, { seen });
    await post(replica, where, { input: "two" });
    await sleep(300);
    const again = await replica.sessions.call(session, "add", { by: 2 }, { seen });
    expect(again).toMatchObject({ repeated: true, version: lost.version });
    expect(await replica.sessions.state(session)).toEqual({ count: 3 });
  });

  test("gives calls new ids when a model reuses them in another conversation of the episode", async () => {
    const replica = proxyReplica({ model: player() });
    const { session, token } = await replica.seeded();
    const where = `/counter/m/${token}/v1/responses`;
    await post(replica, where, { input: "one" });
    await post(replica, where, { input: "two" });
    const ids = (await exchanges(replica, session)).flatMap(({ output }) => output.map(({ call_id }) => call_id));
    expect(new Set(ids.filter(Boolean)).size).toBe(2);
  });

  test("gives calls new ids when a model uses one id for several calls of an answer", async () => {
    const call = { type: "function_call" as const, call_id: "c1", name: "add", arguments: '{"by":1}' };
    const replica = proxyReplica({ model: scriptedModel([{ output: [call, call, call] }]) });
    const { session, token } = await replica.seeded();
    const reply = await post(replica, `/m/${token}/v1/responses`, { input: "one" });
    const { output } = (await reply.json()) as { output: { call_id: string }[] };
    const [recorded] = await exchanges(replica, session);
    expect(output.map(({ call_id: id }) => id)).toEqual(["c1", "c1_3", "c1_3_2"]);
    expect(recorded?.output).toMatchObject(output.map(({ call_id }) => ({ call_id })));
  });
});

describe("the end of an episode", () => {
  test.each(Object.entries(bodies))(
    "%s: 409 after a verdict or a close, and 400 at a limit, never retried",
    async (name, { path, body }) => {
      let asked = 0;
      const model = scriptedModel(() => `answer ${++asked}`);
      const replica = proxyReplica({ model, limits: { calls: 1 } });
      const { session, token } = await replica.seeded();
      const where = `/counter/m/${token}/v1/${path}`;
      expect((await post(replica, where, body)).status).toBe(200);
      const spent = await post(replica, where, body);
      expect(spent.status).toBe(400);
      expect(spent.headers.get("x-should-retry")).toBe("false");
      expect(JSON.stringify(await spent.json())).toContain("limit of 1 model calls");
      await replica.sessions.verify(session);
      const over = await post(replica, where, body);
      expect(over.status).toBe(409);
      expect(over.headers.get("x-should-retry")).toBe("false");
      expect(await over.json()).toMatchObject(
        name === "messages"
          ? { type: "error", error: { type: "invalid_request_error" } }
          : { error: { code: "episode_over" } },
      );
      await replica.sessions.close(session);
      expect((await post(replica, where, body)).status).toBe(409);
      expect(asked).toBe(1);
    },
  );

  test("limits count tokens, seconds and cost of the episode, and a new episode starts again", async () => {
    const usage = { input_tokens: 60, output_tokens: 40, total_tokens: 100, cost: 0.25 };
    const output = [{ type: "message" as const, role: "assistant" as const, content: "ok" }];
    const model = scriptedModel(() => ({ output, usage }));
    for (const limits of [{ tokens: 200 }, { cost: 0.5 }]) {
      const replica = proxyReplica({ model, limits });
      const { session, token } = await replica.seeded();
      const where = `/counter/m/${token}/v1/responses`;
      const ask = async () => (await post(replica, where, { input: "Hi" })).status;
      expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 400]);
      await replica.sessions.seed(session, { goal: 5 });
      expect(await ask()).toBe(200);
    }
    const replica = proxyReplica({ model, limits: { seconds: 0.05 } });
    const { token } = await replica.seeded();
    const ask = async () => (await post(replica, `/counter/m/${token}/v1/responses`, { input: "Hi" })).status;
    expect(await ask()).toBe(200);
    await sleep(60);
    expect(await ask()).toBe(400);
  });

  test("a request waits for a running one that may use up the limit, and asks the model if that one fails", async () => {
    let asked = 0;
    const model: Model = {
      name: "slow",
      async respond() {
        const isFirst = ++asked === 1;
        await sleep(40);
        if (isFirst) throw new HoldfastError("model_failed", "it is down");
        return { output: [{ type: "message", role: "assistant", content: "ok" }], status: "completed" };
      },
    };
    const replica = proxyReplica({ model, limits: { calls: 1 } });
    const { session, token } = await replica.seeded();
    const inputs = ["one", "two", "three"];
    const replies = await Promise.all(
      inputs.map((input) => post(replica, `/counter/m/${token}/v1/responses`, { input })),
    );
    expect(replies.map(({ status }) => status)).toEqual([502, 200, 400]);
    expect([asked, (await exchanges(replica, session)).length]).toEqual([2, 1]);
  });

  test("ONCE: a limit holds over replicas; only a retry of the recorded request gets the answer", async () => {
    let asked = 0;
    let both = gate();
    const model: Model = {
      name: "slow",
      async respond() {
        // Answers once both replicas have asked.
        if (++asked === 2) both.open();
        await both.opened;
        return { output: [{ type: "message", role: "assistant", content: "ok" }], status: "completed" };
      },
    };
    const store = memoryStore();
    const replicas = [0, 1].map(() => proxyReplica({ model, store, limits: { calls: 1 } }));
    const askBoth = async (keys: string[]) => {
      asked = 0;
      both = gate();
      const { session, token } = await replicas[0]!.seeded();
      const where = `/counter/m/${token}/v1/responses`;
      const asking = replicas.map((replica, at) =>
        post(replica, where, { input: "Hi" }, { "idempotency-key": keys[at]! }),
      );
      const statuses = (await Promise.all(asking)).map(({ status }) => status);
      return [statuses.sort(), (await exchanges(replicas[0]!, session)).length];
    };
    expect(await askBoth(["a", "b"])).toEqual([[200, 400], 1]);
    expect(await askBoth(["a", "a"])).toEqual([[200, 200], 1]);
  });

  test("a close stops a model that is answering, and the late answer is not recorded", async () => {
    let stopped = false;
    const model: Model = {
      name: "slow",
      respond: (_, options) =>
        new Promise((_resolve, reject) => {
          options?.signal?.addEventListener("abort", () => {
            stopped = true;
            reject(new HoldfastError("model_cancelled", "cancelled"));
          });
        }),
    };
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const asking = post(replica, `/counter/m/${token}/v1/responses`, { input: "Hi" });
    await sleep(20);
    await replica.sessions.close(session);
    expect((await asking).status).toBe(409);
    expect(stopped).toBe(true);
    expect(await exchanges(replica, session)).toHaveLength(0);
  });
});

test.each([
  ["m", "v1/messages/count_tokens"],
  ["s", "v1/messages"],
  ["ng-rollout", "v1/other"],
])("a path of /%s without a route is refused, and the message does not repeat its token", async (mark, rest) => {
  const replica = proxyReplica({ model: player() });
  const { token } = await replica.seeded();
  const reply = await post(replica, `/counter/${mark}/${token}/${rest}`, {});
  expect(reply.status).toBe(404);
  const text = await reply.text();
  expect(text).toContain(rest);
  expect(text).not.toContain(token.slice(0, 10));
});

describe("what a harness sees", () => {
  const format = { type: "json_object" };
  test.each([
    ["chat", "chat/completions", { messages: [] }, { stop: ["END"], response_format: format, reasoning_effort: "low" }],
    ["openai", "responses", { input: [] }, { text: { format }, reasoning: { effort: "low" } }],
    ["anthropic", "messages", { messages: [] }, { stop_sequences: ["END"] }],
  ])("a model behind %s gets what a harness asks for in the same API", async (name, path, body, passed) => {
    const asked: ModelRequest[] = [];
    const spoken = { temperature: 0.1, max_tokens: 9, seed: 4, tool_choice: { type: "none" }, ...body, ...passed };
    for (const model of [name, "other"]) {
      const respond: Model["respond"] = (request) => {
        asked.push(request);
        return scriptedModel(["Done."]).respond(request);
      };
      const replica = proxyReplica({ model: { name: `${model}:m`, respond }, settings: { temperature: 0.7 } });
      const { token } = await replica.seeded();
      expect((await post(replica, `/counter/m/${token}/v1/${path}`, spoken)).status).toBe(200);
    }
    const choice = name === "anthropic" ? { tool_choice: "none" } : {};
    expect(asked).toEqual([
      { input: [], ...choice, ...passed, temperature: 0.7 },
      { input: [], ...choice, temperature: 0.7 },
    ]);
  });

  test.each([
    ["messages", "max_tokens"],
    ["chat/completions", "max_completion_tokens"],
    ["responses", "max_output_tokens"],
  ])("its limit on an answer in /%s is the default of a model that needs one", async (path, field) => {
    const model = await play(json({ content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" }));
    const upstream = anthropicModel({ model: "claude", baseUrl: model.url, apiKey: "k" });
    const spoken = { messages: [{ role: "user", content: "Hi" }], input: "Hi", [field]: 32_000 };
    for (const settings of [undefined, { max_output_tokens: 9 }]) {
      const replica = proxyReplica({ model: upstream, settings });
      const { token } = await replica.seeded();
      expect((await post(replica, `/counter/m/${token}/v1/${path}`, spoken)).status).toBe(200);
    }
    expect(model.asked.map(({ body }) => body["max_tokens"])).toEqual([32_000, 9]);
  });

  test("token ids and log-probabilities stay in the log", async () => {
    const item = { type: "message" as const, role: "assistant" as const, content: "ok" };
    const tokens = { prompt_token_ids: [1, 2, 3], token_ids: [4], logprobs: { content: [{ logprob: -0.1 }] } };
    const model = scriptedModel(() => ({ output: [{ ...item, ...tokens }], prompt_logprobs: [1] }));
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    for (const { path, body } of Object.values(bodies)) {
      for (const stream of [false, true]) {
        const reply = await (await post(replica, `/counter/m/${token}/v1/${path}`, { ...body, stream })).text();
        expect(reply).not.toMatch(/token_ids|-0\.1|prompt_logprobs/);
      }
    }
    const [first] = await exchanges(replica, session);
    expect(first).toMatchObject({ output: [tokens], response: { prompt_logprobs: [1] } });
  });

  test("Anthropic: a system message among the messages, thinking there and back, invalid arguments there and back", async () => {
    const asked: ModelRequest[] = [];
    const model = scriptedModel((request, turn) => {
      asked.push(request);
      if (turn > 0) return "done";
      return {
        output: [
          { type: "reasoning", summary: [{ type: "summary_text", text: "hm" }], chat_field: "reasoning_content" },
          { type: "function_call", call_id: "c1", name: "add", arguments: "not json" },
        ],
      };
    });
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const messages = [
      { role: "system", content: "Be short." },
      { role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] },
    ];
    const where = `/v1/messages?beta=true`;
    const body = { model: "x", max_tokens: 5, thinking: { type: "adaptive" }, system: [{ type: "text", text: "S" }] };
    const key = { authorization: `Bearer ${token}` };
    const one = (await (await post(replica, where, { ...body, messages }, key)).json()) as { content: object[] };
    expect(one.content).toMatchObject([
      { type: "thinking", thinking: "hm" },
      { type: "tool_use", id: "c1" },
    ]);
    const result = {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "c1", content: "no", is_error: true }],
    };
    await post(
      replica,
      where,
      { ...body, messages: [...messages, { role: "assistant", content: one.content }, result] },
      key,
    );
    expect(asked[1]?.instructions).toBe("S");
    expect(asked[1]?.input).toMatchObject([
      { role: "system" },
      { role: "user" },
      { type: "reasoning", chat_field: "reasoning_content" },
      { type: "function_call", arguments: "not json" },
      { type: "function_call_output", output: "no" },
    ]);
    const found = await exchanges(replica, session);
    expect(found[1]).toMatchObject({ after: { version: found[0]?.version, items: 4 }, input: [{ output: "no" }] });
  });

  test("chat: the text parts of an assistant's message are output", async () => {
    const asked: ModelRequest[] = [];
    const model = scriptedModel((request) => {
      asked.push(request);
      return "done";
    });
    const replica = proxyReplica({ model });
    const { token } = await replica.seeded();
    const content = [{ type: "text", text: "Hi" }];
    const messages = ["user", "assistant", "user"].map((role) => ({ role, content }));
    await post(replica, `/m/${token}/v1/chat/completions`, { messages });
    const types = asked[0]?.input.map((item) => (item["content"] as { type: string }[])[0]?.type);
    expect(types).toEqual(["input_text", "output_text", "input_text"]);
  });

  test("arguments that are nested too deeply to read reach every API as text, whole and streamed", async () => {
    const deep = `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
    const model = scriptedModel([{ calls: [{ name: "add", arguments: deep }] }]);
    const replica = proxyReplica({ model });
    const { token } = await replica.seeded();
    for (const { path, body } of Object.values(bodies)) {
      for (const stream of [false, true]) {
        const reply = await post(replica, `/m/${token}/v1/${path}`, { ...body, stream });
        expect(reply.status).toBe(200);
        expect(await reply.text()).toContain("[".repeat(20_000));
      }
    }
  });

  test("Codex: tools of a namespace and custom tools, there and back", async () => {
    const asked: ModelRequest[] = [];
    const model = scriptedModel((request, turn): ScriptedAnswer => {
      asked.push(request);
      return turn > 0
        ? "done"
        : {
            calls: [
              { name: "mcp__counter__add", arguments: { by: 1 } },
              { name: "apply_patch", arguments: { input: "*** Begin" } },
            ],
          };
    });
    const replica = proxyReplica({ model });
    const { session, token } = await replica.seeded();
    const tools = [
      { type: "namespace", name: "mcp__counter", tools: [{ type: "function", name: "add", parameters: addTool }] },
      { type: "custom", name: "apply_patch", format: { type: "grammar" } },
      { type: "web_search" },
    ];
    const where = `/ng-rollout/${token}/v1/responses`;
    const input: object[] = [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }];
    const { output } = (await (await post(replica, where, { input, tools })).json()) as { output: object[] };
    expect(output).toMatchObject([
      { type: "function_call", namespace: "mcp__counter", name: "add", arguments: '{"by":1}' },
      { type: "custom_tool_call", name: "apply_patch", input: "*** Begin" },
    ]);
    const results = [
      { type: "function_call_output", call_id: "call_0_0", output: "1" },
      { type: "custom_tool_call_output", call_id: "call_0_1", output: "ok" },
    ];
    await post(replica, where, { input: [...input, ...output, ...results], tools });
    expect(asked[0]?.tools?.map(({ name }) => name)).toEqual(["mcp__counter__add", "apply_patch"]);
    const found = await exchanges(replica, session);
    expect(found[1]?.input).toMatchObject([{ output: "1" }, { output: "ok" }]);
  });

  test("a slow model's stream starts before the answer; a failure then is an event of the dialect", async () => {
    const model: Model = {
      name: "slow",
      async respond() {
        await sleep(80);
        throw new HoldfastError("model_failed", "the model's server sent a broken stream");
      },
    };
    const replica = proxyReplica({ model, pace: { after: 10, every: 20 } });
    const { session, token } = await replica.seeded();
    const errors = {
      responses:
        /event: error\ndata: {"type":"error","sequence_number":0,"code":"model_failed","message":"the model's.*\n\nevent: response\.failed\ndata: .*"response":{.*"status":"failed","error":{"code":"model_failed","message":"the model's/,
      chat: /data: {"error":{"message":"the model's/,
      messages: /event: ping[\s\S]*event: error\ndata: {"type":"error","error":{"type":"api_error"/,
    };
    for (const [name, { path, body }] of Object.entries(bodies)) {
      const reply = await post(replica, `/counter/m/${token}/v1/${path}`, { ...body, stream: true });
      expect(reply.status).toBe(200);
      expect(await reply.text()).toMatch(errors[name as keyof typeof errors]);
    }
    expect(await exchanges(replica, session)).toHaveLength(0);
    const client = openai(replica, token).responses;
    const thrown = { code: "model_failed", message: expect.stringContaining("a broken stream") };
    await expect(client.stream({ model: "x", input: "Hi" }).finalResponse()).rejects.toMatchObject(thrown);
    await expect(client.create({ model: "x", input: "Hi" })).rejects.toMatchObject({
      status: 502,
    });
  });
});

test("an unexpected failure of a stream is an event, and then reaches the server's log", async () => {
  const failing = gate();
  const model: Model = {
    name: "broken",
    async respond() {
      await failing.opened;
      throw new TypeError("a bug of the model");
    },
  };
  const replica = proxyReplica({ model, pace: { after: 1, every: 60_000 } });
  const logged = vi.spyOn(replica.app.log, "error");
  const { url } = await served(replica.app);
  const { token } = await replica.seeded();
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ input: "Hi", stream: true });
  const reply = await fetch(`${url}/m/${token}/v1/responses`, { method: "POST", headers, body });
  let read = "";
  const reading = (async () => {
    for await (const part of reply.body!) read += new TextDecoder().decode(part);
  })();
  failing.open();
  await expect(reading).rejects.toThrow();
  expect(read).toContain("the server's log has the cause");
  expect(logged.mock.lastCall).toMatchObject(["a stream failed", { message: "a bug of the model" }]);
});

test("only a refused request was too long; a failure that mentions the context is a failure", async () => {
  for (const [code, wanted] of [
    ["model_refused", "context_length_exceeded"],
    ["model_failed", "model_failed"],
    ["model_timeout", "model_timeout"],
  ] as const) {
    const failing = scriptedModel(() => {
      throw new HoldfastError(code, "the context window of this replica is being resized");
    });
    const replica = proxyReplica({ model: failing });
    const { token } = await replica.seeded();
    const reply = await post(replica, `/m/${token}/v1/responses`, { input: "Hi" });
    expect(await reply.json()).toMatchObject({ error: { code: wanted } });
  }
});

describe("refusals have the dialect's shape", () => {
  const cases: [what: string, path: string, body: unknown, status: number][] = [
    ["an unknown token", "/m/nonsense/v1/PATH", {}, 401],
    ["no token", "/v1/PATH", {}, 401],
    ["a body that is not JSON", "/m/TOKEN/v1/PATH", "{", 400],
    ["a body that is a list", "/m/TOKEN/v1/PATH", [], 400],
    ["a body without messages", "/m/TOKEN/v1/PATH", {}, 400],
    ["messages that are not a list", "/m/TOKEN/v1/PATH", { messages: 5, input: 5 }, 400],
    ["messages that are not objects", "/m/TOKEN/v1/PATH", { messages: [5], input: [5] }, 400],
    ["a message without a role", "/m/TOKEN/v1/PATH", { messages: [{}], input: [{}] }, 400],
  ];
  test.each(cases)("%s", async (_, path, body, status) => {
    const replica = proxyReplica({ model: scriptedModel([]) });
    const { token } = await replica.seeded();
    for (const [name, { path: last }] of Object.entries(bodies)) {
      const reply = await post(replica, path.replace("TOKEN", token).replace("PATH", last), body);
      expect(reply.status, name).toBe(status);
      const shape =
        name === "messages"
          ? { type: "error", error: { type: expect.any(String), message: expect.any(String) } }
          : { error: { message: expect.any(String), type: "invalid_request_error", code: expect.any(String) } };
      expect(await reply.json()).toMatchObject(shape);
    }
  });

  test("GET lists the model, and other methods are refused", async () => {
    const replica = proxyReplica({ model: scriptedModel([]) });
    const { token } = await replica.seeded();
    expect((await openai(replica, token).models.list()).data).toMatchObject([{ id: "scripted" }]);
    const wrong = await replica.fetch(`http://localhost:8080/m/${token}/v1/responses`);
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST"]);
  });
});

// An agent behind the official OpenAI client: responses, streams, branches, chat completions, and bad input.
import { createSessions, defineAgent, memoryStore, scriptedModel, tool, type Agent, type Model } from "holdfast";
import type OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { onEveryStore } from "../agent/engine.ts";
import { asked } from "../server/serving.ts";
import { openaiClient } from "./openai-client.ts";
import { parallelAgents, parallelAnswers } from "./parallel-agents.ts";

const counting = (model: Model): Agent =>
  defineAgent({
    name: "counter",
    description: "Counts.",
    model,
    tools: { add: tool({ description: "Add 1.", run: ({ state }) => (state["count"] = (state["count"] ?? 0) + 1) }) },
  });
const polite = (): Model =>
  scriptedModel(({ input }) => {
    const last = input.at(-1);
    return last?.type === "message" ? { calls: [{ name: "add" }] } : `The count is ${String(last?.["output"])}.`;
  });

function served(model = polite(), sessions = createSessions({ app: "counter", store: memoryStore() })) {
  onTestFinished(() => sessions.stop());
  const agent = counting(model);
  return { sessions, ...openaiClient(agent, sessions) };
}

/** A header that makes a request safe to repeat. */
const keyed = (key: string) => ({ headers: { "idempotency-key": `of the openai test, ${key}` } });
const model = "counter";

onEveryStore("a response is created, streamed, continued, stored and deleted", async (place) => {
  const { client, sessions } = served(polite(), place.engine("counter"));
  expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["counter"]);
  const first = await client.responses.create({ model, input: "add", metadata: { a: "b" } });
  expect(first).toMatchObject({ status: "completed", output_text: "The count is 1.", metadata: { a: "b" } });
  const stream = client.responses.stream({ model, input: "add", previous_response_id: first.id });
  const types: string[] = [];
  let text = "";
  for await (const event of stream) {
    types.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  expect(text).toBe("The count is 2.");
  expect([types[0], types.at(-1)]).toEqual(["response.created", "response.completed"]);
  const second = await stream.finalResponse();
  expect(second).toMatchObject({ output_text: "The count is 2.", previous_response_id: first.id });
  expect(second.conversation).toEqual(first.conversation);

  // The first response is not the newest any more, so the conversation branches there.
  const branch = await client.responses.create({ model, input: "add", previous_response_id: first.id });
  expect(branch.output_text).toBe("The count is 2.");
  expect(branch.conversation?.id).not.toBe(first.conversation?.id);
  expect((await sessions.info(branch.conversation?.id ?? "")).parent?.session).toBe(first.conversation?.id);
  const third = await client.responses.create({ model, input: "add", conversation: second.conversation?.id ?? "" });
  expect(third.output_text).toBe("The count is 3.");

  const { output, usage, status } = await client.responses.retrieve(second.id);
  expect(second).toMatchObject({ output, usage, status });
  await client.responses.delete(branch.id);
  await expect(client.responses.retrieve(branch.id)).rejects.toMatchObject({ status: 404 });
  expect((await client.responses.retrieve(first.id)).id).toBe(first.id);
});

test("ONCE: a request that is repeated under its key is applied once: first, continued, branched or streamed", async () => {
  const { client, sessions } = served();
  const twice = async (body: OpenAI.Responses.ResponseCreateParamsNonStreaming, key: string) => {
    const [one, two] = [
      await client.responses.create(body, keyed(key)),
      await client.responses.create(body, keyed(key)),
    ];
    expect(two).toEqual(one);
    return one;
  };
  const first = await twice({ model, input: "add" }, "1");
  const second = await twice({ model, input: "add", previous_response_id: first.id }, "2");
  const branch = await twice({ model, input: "add", previous_response_id: first.id }, "3");
  expect([first, second, branch].map(({ output_text }) => output_text)).toEqual([
    "The count is 1.",
    "The count is 2.",
    "The count is 2.",
  ]);
  const streamed = client.responses.stream({ model, input: "add", previous_response_id: first.id }, keyed("2"));
  expect((await streamed.finalResponse()).id).toBe(second.id);
  expect((await sessions.state(second.conversation?.id ?? ""))["count"]).toBe(2);
  await expect(client.responses.create({ model, input: "other" }, keyed("1"))).rejects.toMatchObject({
    status: 409,
    code: "call_conflict",
  });
});

test("a user's conversations are found by the user", async () => {
  const { client, sessions } = served();
  const { conversation } = await client.responses.create({ model, input: "add", user: "ann" });
  await client.responses.create({ model, input: "add", user: "bob" });
  const found: string[] = [];
  for await (const { session } of sessions.list({ user: "ann", open: true })) found.push(session);
  expect(found).toEqual([conversation?.id]);
});

test("ONCE: a repeat with `store: false` gets the recorded response", async () => {
  const { client, sessions } = served();
  const key = { headers: { "idempotency-key": "a-key-of-more-than-20-characters" } };
  const body = { model, input: "add", store: false } as const;
  const first = await client.responses.create(body, key);
  const again = await client.responses.create(body, key);
  expect(again.output_text).toBe(first.output_text);
  expect(again.id).toBe(first.id);
  let turns = 0;
  for await (const { session } of sessions.list()) {
    for await (const event of sessions.events(session)) if (event.type === "invocation.began") turns++;
  }
  expect(turns).toBe(1);
});

test("instructions and items reach the model", async () => {
  const seen: unknown[] = [];
  const { client } = served(
    scriptedModel(({ input }) => {
      seen.push(...input);
      return "Yes.";
    }),
  );
  const image = { type: "input_image" as const, image_url: "data:image/png;base64,aGk=", detail: "auto" as const };
  const content = [{ type: "input_text" as const, text: "is it?" }, image];
  await client.responses.create({ model, instructions: "Be brief.", input: [{ role: "user", content }] });
  expect(seen).toMatchObject([
    { role: "developer", content: "Be brief." },
    { role: "user", content },
  ]);
});

test("a model that fails is a failed response, whole and streamed", async () => {
  const { client } = served(scriptedModel([]));
  const failed = await client.responses.create({ model, input: "hello" });
  expect(failed).toMatchObject({ status: "failed", error: { code: "model_exhausted" } });
  const types: string[] = [];
  for await (const { type } of await client.responses.create({ model, input: "hello", stream: true })) types.push(type);
  expect(types.at(-1)).toBe("response.failed");
  expect((await client.responses.retrieve(failed.id)).status).toBe("failed");
  const messages = [{ role: "user" as const, content: "hello" }];
  await expect(client.chat.completions.create({ model, messages })).rejects.toMatchObject({ status: 502 });
});

test("chat completions answer the messages, whole and streamed", async () => {
  const { client } = served();
  const messages = [
    { role: "system" as const, content: "Be brief." },
    { role: "user" as const, content: "hello" },
    { role: "assistant" as const, content: "Hello!" },
    { role: "user" as const, content: [{ type: "text" as const, text: "add" }] },
  ];
  const whole = await client.chat.completions.create({ model, messages });
  expect(whole.choices[0]).toMatchObject({ message: { content: "The count is 1." }, finish_reason: "stop" });
  const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
  let text = "";
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? "";
  expect(text).toBe("The count is 1.");
  expect((await stream.finalChatCompletion()).usage?.total_tokens).toBe(whole.usage?.total_tokens);
});

test("the streamed text of parallel agents is the text of the whole answer, in the same order", async () => {
  const sessions = createSessions({ app: "team", store: memoryStore() });
  onTestFinished(() => sessions.stop());
  const { client } = openaiClient(parallelAgents(), sessions);
  const messages = [{ role: "user" as const, content: "go" }];
  const whole = await client.chat.completions.create({ model, messages });
  expect(whole.choices[0]?.message.content).toBe(parallelAnswers.join("\n\n"));
  expect(await client.chat.completions.stream({ model, messages }).finalContent()).toBe(parallelAnswers.join("\n\n"));

  const pieces: string[][] = [];
  let output: OpenAI.Responses.ResponseOutputItem[] = [];
  for await (const event of await client.responses.create({ model, input: "go", stream: true })) {
    if (event.type === "response.output_text.delta") (pieces[event.output_index] ??= []).push(event.delta);
    if (event.type === "response.completed") ({ output } = event.response);
  }
  expect(pieces.map((each) => each.join(""))).toEqual(parallelAnswers);
  expect(output).toMatchObject(parallelAnswers.map((text) => ({ content: [{ text }] })));
  expect(pieces[2]).toEqual(["Both ", "spoke."]);
});

const [hosted, schema, taken] = [
  [{ type: "web_search" }],
  [{ type: "function", name: "mine", parameters: { type: "array" } }],
  [{ type: "function", name: "add", parameters: {} }],
];
const output = [{ type: "function_call_output", call_id: "none", output: "1" }];
test.each([
  ["POST", "/v1/responses", undefined, 400],
  ["POST", "/v1/responses", { model }, 400],
  ["POST", "/v1/responses", { model, input: [] }, 400],
  ["POST", "/v1/responses", { model, input: [{ type: "function_call", name: 3 }] }, 400],
  ["POST", "/v1/responses", { model, input: "hello", tools: hosted }, 400],
  ["POST", "/v1/responses", { model, input: "hello", tools: schema }, 400],
  ["POST", "/v1/responses", { model, input: "hello", tools: taken }, 400],
  ["POST", "/v1/responses", { model, input: output }, 409],
  ["POST", "/v1/responses", { model, input: "hello", background: true }, 400],
  ["POST", "/v1/responses", { model, input: "hello", previous_response_id: 3 }, 400],
  ["POST", "/v1/responses", { model, input: "hello", previous_response_id: "resp_none_2" }, 404],
  ["POST", "/v1/responses", { model, input: "hello", previous_response_id: "resp_none_2", conversation: "a" }, 400],
  ["POST", "/v1/responses", { model, input: "hello", conversation: "none", stream: true }, 404],
  ["POST", "/v1/chat/completions", { model }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [] }, 400],
  ["POST", "/v1/chat/completions", { model, messages: null }, 400],
  ["POST", "/v1/chat/completions", { model, messages: "hello" }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [null] }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [], stream: true }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [{ role: "nobody", content: "hello" }] }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "a" }], n: 2 }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "a" }], tools: taken }, 400],
  ["POST", "/v1/chat/completions", { model, messages: [{ role: "tool", tool_call_id: "none", content: "a" }] }, 409],
  ["GET", "/v1/responses/none", undefined, 404],
  ["DELETE", "/v1/responses/resp_none_2", undefined, 404],
  ["PATCH", "/v1/responses/resp_none_2", undefined, 405],
  ["GET", "/v1/responses", undefined, 405],
  ["POST", "/v1/models", {}, 405],
])(
  "%s %s with %j is refused with %i, in OpenAI's form, and nothing is recorded",
  async (method, path, body, status) => {
    const { app, sessions } = served();
    const reply = await app.handle(asked(path, { method, body, headers: { host: "127.0.0.1" } }));
    expect([reply.status, reply.body]).toEqual([
      status,
      { error: { message: expect.any(String), type: "invalid_request_error", param: null, code: expect.any(String) } },
    ]);
    const events: string[] = [];
    for await (const { session } of sessions.list()) {
      for await (const { type } of sessions.events(session)) events.push(type);
    }
    expect(events.filter((type) => type !== "session.opened")).toEqual([]);
  },
);

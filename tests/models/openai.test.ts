// openaiModel against a server that answers like OpenAI's Responses API.
import fc from "fast-check";
import type { Response, ResponseCreateParams, ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import type { ModelRequest, Piece } from "../../src/core/model.ts";
import { openaiModel } from "../../src/models/openai.ts";
import { runs } from "../runs.ts";
import { runModelCases } from "./cases.ts";
import { cut, echo, eventText, json, play, stream, stuck } from "./server.ts";

// The compiler checks that requests and responses match the official types.
const request = {
  instructions: "Be brief.",
  input: [
    { type: "message", role: "user", content: [{ type: "input_text", text: "Weather?" }] },
    { type: "function_call", call_id: "call_1", name: "weather", arguments: '{"city":"Bern"}' },
    { type: "function_call_output", call_id: "call_1", output: "rain" },
  ],
  tools: [{ type: "function", name: "weather", parameters: { type: "object", properties: {} }, strict: false }],
  tool_choice: { type: "function", name: "weather" },
  parallel_tool_calls: false,
  temperature: 0.5,
  top_p: 0.9,
  max_output_tokens: 100,
} satisfies ModelRequest & ResponseCreateParams;

const answer = {
  id: "resp_1",
  object: "response",
  created_at: 1_700_000_000,
  status: "completed",
  background: false,
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  model: "gpt-5.1",
  output_text: "Rain.",
  output: [
    { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Look it up." }], encrypted_content: "x" },
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Rain.", annotations: [], logprobs: [] }],
    },
    { type: "function_call", id: "fc_1", call_id: "call_2", name: "weather", arguments: '{"city":"Rom"}' },
  ],
  parallel_tool_calls: true,
  temperature: 1,
  tool_choice: "auto",
  tools: [],
  top_p: 1,
  usage: {
    input_tokens: 20,
    input_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
    output_tokens: 10,
    output_tokens_details: { reasoning_tokens: 3 },
    total_tokens: 30,
  },
} satisfies Response;

const events: ResponseStreamEvent[] = [
  { type: "response.created", sequence_number: 0, response: { ...answer, status: "in_progress", output: [] } },
  {
    type: "response.reasoning_summary_text.delta",
    delta: "Look it up.",
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    sequence_number: 1,
  },
  {
    type: "response.output_text.delta",
    delta: "Rain.",
    content_index: 0,
    item_id: "msg_1",
    logprobs: [],
    output_index: 1,
    sequence_number: 2,
  },
  {
    type: "response.output_item.added",
    item: { ...answer.output[2], arguments: "" },
    output_index: 2,
    sequence_number: 3,
  } as ResponseStreamEvent,
  {
    type: "response.function_call_arguments.delta",
    delta: '{"city":"Rom"}',
    item_id: "fc_1",
    output_index: 2,
    sequence_number: 4,
  },
  { type: "response.completed", response: answer, sequence_number: 5 },
];

const modelAt = (url: string, apiKey = "sk-secret-123456"): ReturnType<typeof openaiModel> =>
  openaiModel({ model: "gpt-5.1", baseUrl: `${url}/v1/`, apiKey, attempts: 1 });
const hello: ModelRequest = { input: [{ type: "message", role: "user", content: "Hello" }] };

describe("a request", () => {
  test("is sent unchanged with the key, and is not stored", async () => {
    const server = await play(json(answer));
    await modelAt(server.url).respond(request);
    const [asked] = server.asked;
    expect(asked?.path).toBe("/v1/responses");
    expect(asked?.headers.authorization).toBe("Bearer sk-secret-123456");
    expect(asked?.body).toEqual({ model: "gpt-5.1", store: false, ...request });
  });

  test("keeps items of unknown kinds and unknown settings, and can request storage", async () => {
    const server = await play(json(answer));
    const input = [...hello.input, { type: "mcp_call", id: "mcp_1", server_label: "x", arguments: "{}" }];
    await modelAt(server.url).respond({ input, store: true, top_logprobs: 2 });
    expect(server.asked[0]?.body).toEqual({ model: "gpt-5.1", store: true, top_logprobs: 2, input });
  });

  test("overrides the model's settings with its own", async () => {
    const server = await play(json(answer));
    const settings = { temperature: 0, top_p: 0.5, reasoning: { effort: "low" } };
    const model = openaiModel({ model: "m", baseUrl: server.url, apiKey: "key", request: settings });
    await model.respond({ ...hello, temperature: 1, ...({ top_p: undefined } as object) });
    expect(server.asked[0]?.body).toMatchObject({ ...settings, temperature: 1 });
  });
});

describe("an answer", () => {
  test("is returned unchanged", async () => {
    const server = await play(json({ ...answer, added: { by: "the server" } }));
    expect(await modelAt(server.url).respond(hello)).toEqual({ ...answer, added: { by: "the server" } });
  });

  test("keeps extra fields of an item", async () => {
    const output = [
      { ...answer.output[1], prompt_token_ids: [1, 2], generation_token_ids: [3] },
      { type: "x.y", z: 1 },
    ];
    const server = await play(json({ ...answer, output }));
    expect((await modelAt(server.url).respond(hello)).output).toEqual(output);
  });

  test("that was truncated is incomplete, with the reason", async () => {
    const incomplete = { ...answer, status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
    const server = await play(json(incomplete));
    expect(await modelAt(server.url).respond(hello)).toEqual(incomplete);
  });

  test("may lack status and usage", async () => {
    const server = await play(json({ output: [], usage: null }));
    expect(await modelAt(server.url).respond(hello)).toEqual({ output: [], status: "completed" });
  });

  test.each([
    ["failed", { ...answer, status: "failed", error: { code: "server_error", message: "it broke" } }, /it broke/],
    ["has an error", { error: { code: "invalid_prompt", message: "not this" } }, /not this/],
    ["failed and does not say why", { ...answer, status: "failed" }, /no reason was given/],
    ["is still in progress", { ...answer, status: "in_progress" }, /in_progress/],
    ["has no output", { ...answer, output: undefined }, /without `output`/],
    ["has an item without a type", { ...answer, output: [{ id: "x" }] }, /without a type/],
    ["has a message without content", { ...answer, output: [{ type: "message" }] }, /message without `content`/],
    ["has a number for content", { ...answer, output: [{ type: "message", content: 5 }] }, /without `content`/],
    ["has texts for parts", { ...answer, output: [{ type: "message", content: ["Hi"] }] }, /not a list of objects/],
    [
      "has a part whose text is none",
      { ...answer, output: [{ type: "message", content: [{ type: "output_text", text: 5 }] }] },
      /a part of `content` that is not a string/,
    ],
    [
      "has an object for arguments",
      { ...answer, output: [{ type: "function_call", call_id: "a", name: "f", arguments: {} }] },
      /`arguments`/,
    ],
    ["has a call without an id", { ...answer, output: [{ type: "function_call", name: "f" }] }, /`call_id`/],
  ])("that %s is model_failed", async (_, body, message) => {
    const server = await play(json(body));
    await expect(modelAt(server.url).respond(hello)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(message),
    });
  });

  test("is requested again after a temporary failure, but not after a refusal", async () => {
    const error = (code: string): object => ({ ...answer, status: "failed", error: { code, message: "no" } });
    const passing = await play(json(error("server_error")), json(answer));
    const model = openaiModel({ model: "m", baseUrl: passing.url, apiKey: "k", attempts: 2 });
    expect((await model.respond(hello)).id).toBe("resp_1");

    const final = await play(json(error("invalid_prompt")), json(answer));
    const other = openaiModel({ model: "m", baseUrl: final.url, apiKey: "k", attempts: 2 });
    await expect(other.respond(hello)).rejects.toMatchObject({
      code: "model_failed",
      detail: { reason: "invalid_prompt", attempts: 1 },
    });
  });
});

describe("a stream", () => {
  const pieces: Piece[] = [
    { type: "reasoning", text: "Look it up." },
    { type: "text", text: "Rain." },
    { type: "arguments", call_id: "call_2", name: "weather", text: '{"city":"Rom"}' },
  ];

  test("emits pieces, then the whole answer", async () => {
    const server = await play(stream(eventText(events)));
    const seen: Piece[] = [];
    expect(await modelAt(server.url).respond(hello, { onPiece: (piece) => seen.push(piece) })).toEqual(answer);
    expect(seen).toEqual(pieces);
    expect(server.asked[0]?.body).toMatchObject({ stream: true });
  });

  test("gives the same answer for every split into chunks", async () => {
    const output = [{ ...answer.output[1], content: [{ type: "output_text", text: "Régen. 🌧" }] }];
    const whole = { ...answer, output };
    const bytes = Buffer.from(eventText([...events.slice(0, -1), { type: "response.completed", response: whole }]));
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(bytes.length), { maxLength: 12 }), async (places) => {
        const cuts = [0, ...places.sort((a, b) => a - b), bytes.length];
        const server = await play(stream(...cuts.slice(1).map((end, at) => bytes.subarray(cuts[at], end))));
        const seen: Piece[] = [];
        expect(await modelAt(server.url).respond(hello, { onPiece: (piece) => seen.push(piece) })).toEqual(whole);
        expect(seen).toEqual(pieces);
      }),
      { numRuns: runs(30) },
    );
  });

  test("uses the streamed items if the last event has none", async () => {
    const items = answer.output.map((item, output_index) => ({
      type: "response.output_item.done",
      item,
      output_index,
    }));
    const last = { type: "response.incomplete", response: { id: "resp_1", output: [] } };
    const server = await play(stream(eventText([...items, last])));
    const response = await modelAt(server.url).respond(hello, { onPiece: () => undefined });
    expect(response).toEqual({ id: "resp_1", output: answer.output, status: "incomplete" });
  });

  const failing = { ...answer, status: "failed", error: { code: "server_error", message: "it broke" } };
  test.each([
    ["a failed response", eventText([{ type: "response.failed", response: failing }]), /it broke/],
    ["an error", eventText([{ type: "error", code: "server_error", message: "it broke", param: null }]), /it broke/],
    ["nothing", "", /before the answer was complete/],
    ["half of it", eventText(events.slice(0, 3)), /before the answer was complete/],
    ["what is no JSON", "data: {oops\n\n", /not a JSON object/],
    ["a final event without a response", eventText([{ type: "response.completed" }]), /without a response/],
  ])("of %s is model_failed", async (_, text, message) => {
    const server = await play(stream(text));
    await expect(modelAt(server.url).respond(hello, { onPiece: () => undefined })).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(message),
    });
  });

  test("is retried after a break only if no piece was passed on", async () => {
    const whole = stream(eventText(events));
    const early = await play(cut(eventText(events.slice(0, 1)), "text/event-stream"), whole);
    const options = { model: "m", apiKey: "k", attempts: 2 };
    const onPiece = (): void => undefined;
    await openaiModel({ ...options, baseUrl: early.url }).respond(hello, { onPiece });
    expect(early.asked).toHaveLength(2);

    const late = await play(stuck(eventText(events.slice(0, 2))), whole);
    const model = openaiModel({ ...options, baseUrl: late.url });
    await expect(model.respond(hello, { onPiece: late.drop })).rejects.toMatchObject({
      code: "model_failed",
      detail: { attempts: 1 },
    });
    expect(late.asked).toHaveLength(1);
  });
});

runModelCases("openaiModel", async () => {
  const completed = (item: object): object => ({ ...answer, output: [item] });
  const shapes = (item: object, delta: object) => {
    const whole = completed(item);
    const added = { type: "response.output_item.added", item, output_index: 0 };
    return { whole, events: [added, { ...delta, output_index: 0 }, { type: "response.completed", response: whole }] };
  };
  const server = await play(
    echo({
      said: (text) =>
        shapes(
          { type: "message", role: "assistant", content: [{ type: "output_text", text }] },
          { type: "response.output_text.delta", delta: text },
        ),
      called: (name, args) =>
        shapes(
          { type: "function_call", call_id: "call_9", name, arguments: args },
          { type: "response.function_call_arguments.delta", delta: args },
        ),
    }),
  );
  return modelAt(server.url);
});

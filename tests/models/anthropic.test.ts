// anthropicModel against a server that answers like Anthropic's Messages API.
import type { Message, MessageCreateParams, RawMessageStreamEvent } from "@anthropic-ai/sdk/resources/messages";
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import type { Item, ModelRequest, ModelResponse, Piece } from "../../src/core/model.ts";
import { anthropicBody, anthropicModel, type AnthropicBody } from "../../src/models/anthropic.ts";
import { runs } from "../runs.ts";
import { runModelCases } from "./cases.ts";
import { echo, eventText, json, play, stream } from "./server.ts";

const usage = {
  input_tokens: 10,
  output_tokens: 7,
  cache_creation_input_tokens: 3,
  cache_read_input_tokens: 5,
  cache_creation: null,
  inference_geo: null,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: "standard",
  speed: null,
} as const;

const message = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude",
  container: null,
  content: [
    { type: "thinking", thinking: "Look.", signature: "sig" },
    { type: "redacted_thinking", data: "secret" },
    { type: "text", text: "Rain.", citations: null },
    { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" }, caller: { type: "direct" } },
  ],
  stop_reason: "tool_use",
  stop_sequence: null,
  stop_details: null,
  usage,
} satisfies Partial<Message> as unknown as Message;

const items: Item[] = [
  { type: "reasoning", summary: [{ type: "summary_text", text: "Look." }], signature: "sig" },
  { type: "reasoning", summary: [], data: "secret" },
  { type: "message", role: "assistant", content: [{ type: "output_text", text: "Rain." }] },
  {
    type: "function_call",
    call_id: "toolu_1",
    name: "weather",
    arguments: '{"city":"Bern"}',
    caller: { type: "direct" },
  },
];
const counted = {
  input_tokens: 18,
  input_tokens_details: { cached_tokens: 5, cache_write_tokens: 3 },
  output_tokens: 7,
  total_tokens: 25,
  cache_creation_input_tokens: 3,
  cache_read_input_tokens: 5,
};

const user = (text: string): Item => ({ type: "message", role: "user", content: text });
const hello: ModelRequest = { input: [user("Hello")] };
const modelAt = (baseUrl: string) => anthropicModel({ model: "claude", baseUrl, apiKey: "sk-ant-123456", attempts: 1 });

async function answerTo(body: unknown): Promise<ModelResponse> {
  const server = await play(json(body));
  return modelAt(server.url).respond(hello);
}

test("requests match the official types", () => {
  expectTypeOf<AnthropicBody & { model: string }>().toExtend<MessageCreateParams>();
});

describe("a request", () => {
  test("goes to /v1/messages with key and version, with or without the version in the base URL", async () => {
    const server = await play(json(message));
    await modelAt(server.url).respond(hello);
    await modelAt(`${server.url}/v1/`).respond(hello);
    for (const { path, headers } of server.asked) {
      expect(path).toBe("/v1/messages");
      expect(headers).toMatchObject({ "x-api-key": "sk-ant-123456", "anthropic-version": "2023-06-01" });
      expect(headers).not.toHaveProperty("authorization");
    }
  });

  test("becomes turns of user and assistant, with all results of a turn at the start of one message", () => {
    const { system, messages } = anthropicBody({
      instructions: "Be brief.",
      input: [
        { type: "message", role: "developer", content: "No jokes." },
        user("Weather?"),
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "of another server" }] },
        ...items,
        { type: "function_call", call_id: "b", name: "weather", arguments: "{oops" },
        {
          type: "anthropic.server_tool_use",
          block: { type: "server_tool_use", id: "s", name: "web_search", input: {} },
        },
        { type: "mcp_call", id: "of another server" },
        { type: "function_call_output", call_id: "toolu_1", output: "rain" },
        user("Hurry!"),
        { type: "function_call_output", call_id: "b", output: [{ type: "input_text", text: "sun" }] },
        { type: "message", role: "system", content: "Be quick." },
        { type: "message", role: "assistant", content: " " },
      ],
    });
    expect(system).toBe("Be brief.\n\nNo jokes.");
    expect(messages).toEqual([
      { role: "user", content: [{ type: "text", text: "Weather?" }] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Look.", signature: "sig" },
          { type: "redacted_thinking", data: "secret" },
          { type: "text", text: "Rain." },
          { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
          { type: "tool_use", id: "b", name: "weather", input: { INVALID_JSON: "{oops" } },
          { type: "server_tool_use", id: "s", name: "web_search", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: "rain" },
          { type: "tool_result", tool_use_id: "b", content: [{ type: "text", text: "sun" }] },
          { type: "text", text: "Hurry!" },
          { type: "text", text: "Be quick." },
        ],
      },
    ]);
  });

  test("sends images by URL or as data, and passes on the API's own blocks", () => {
    const document = { type: "document", source: { type: "url", url: "https://x.test/a.pdf" } };
    const content = [
      { type: "input_image", image_url: "data:image/png;base64,AA==" },
      { type: "input_image", image_url: "https://x.test/a.png" },
      document,
    ];
    expect(anthropicBody({ input: [{ type: "message", role: "user", content }] }).messages[0]?.content).toEqual([
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
      { type: "image", source: { type: "url", url: "https://x.test/a.png" } },
      document,
    ]);
  });

  test("carries tools, settings, and unknown fields for the server", async () => {
    const server = await play(json(message));
    const settings = { temperature: 0, top_k: 5, thinking: { type: "enabled", budget_tokens: 1024 } };
    await modelAt(server.url).respond({
      ...hello,
      tools: [{ type: "function", name: "now", description: "The time.", parameters: {}, strict: true }],
      tool_choice: "required",
      parallel_tool_calls: false,
      max_output_tokens: 99,
      ...settings,
    });
    expect(server.asked[0]?.body).toEqual({
      model: "claude",
      max_tokens: 99,
      messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
      tools: [{ name: "now", description: "The time.", input_schema: { type: "object" }, strict: true }],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
      ...settings,
    });
  });

  test.each([
    ["auto", { type: "auto" }],
    ["none", { type: "none" }],
    ["required", { type: "any" }],
    [{ type: "function", name: "f" } as const, { type: "tool", name: "f" }],
    [undefined, undefined],
  ] as const)("with the tool choice %j asks for %j", (tool_choice, expected) => {
    const tools: ModelRequest["tools"] = [{ type: "function", name: "f", parameters: { type: "object" } }];
    expect(anthropicBody({ ...hello, tools, ...(tool_choice ? { tool_choice } : {}) }).tool_choice).toEqual(expected);
    expect(anthropicBody({ ...hello, ...(tool_choice ? { tool_choice } : {}) }).tool_choice).toBeUndefined();
  });

  test("limits the output to 4,096 tokens by default", () => expect(anthropicBody(hello).max_tokens).toBe(4_096));
  test("limits the output to the caller's default, unless the request has a limit", () => {
    expect(anthropicBody(hello, 32_000).max_tokens).toBe(32_000);
    expect(anthropicBody({ ...hello, max_output_tokens: 9 }, 32_000).max_tokens).toBe(9);
  });
});

describe("an answer", () => {
  test("becomes items in the order of its blocks, and other fields stay on the response", async () => {
    const response = await answerTo({ ...message, context_management: { applied_edits: [] } });
    expect(response).toMatchObject({
      id: "msg_1",
      model: "claude",
      stop_reason: "tool_use",
      context_management: { applied_edits: [] },
      status: "completed",
      usage: counted,
    });
    expect(response.output).toEqual(items);
  });

  test("can be sent back unchanged", async () => {
    const { output } = await answerTo(message);
    const [, back] = anthropicBody({ input: [user("Hello"), ...output] }).messages;
    expect(back?.content).toEqual([
      ...message.content.slice(0, 2),
      { type: "text", text: "Rain." },
      { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Bern" } },
    ]);
  });

  test("keeps blocks of unknown kinds, and texts with their citations in one message", async () => {
    const search = { type: "server_tool_use", id: "s", name: "web_search", input: { query: "x" } };
    const citations = [{ type: "char_location", cited_text: "x" }];
    const content = [search, { type: "text", text: "It is " }, { type: "text", text: "rain.", citations }];
    expect((await answerTo({ ...message, content })).output).toEqual([
      { type: "anthropic.server_tool_use", block: search },
      {
        type: "message",
        role: "assistant",
        content: [
          { type: "output_text", text: "It is " },
          { type: "output_text", text: "rain.", citations },
        ],
      },
    ]);
  });

  test.each([
    ["max_tokens", "max_output_tokens"],
    ["model_context_window_exceeded", "model_context_window_exceeded"],
    ["pause_turn", "pause_turn"],
  ])("that was ended by %s is incomplete", async (stop_reason, reason) => {
    const response = await answerTo({ ...message, stop_reason });
    expect(response).toMatchObject({ status: "incomplete", incomplete_details: { reason } });
  });

  test("that is refused has a refusal in its message", async () => {
    const stop_details = { type: "refusal", category: null, explanation: "Not this." };
    const { output } = await answerTo({ ...message, content: [], stop_reason: "refusal", stop_details });
    expect(output).toEqual([
      { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "Not this." }] },
    ]);
  });

  test("without content is a message with empty text", async () => {
    const { output } = await answerTo({ ...message, content: [], stop_reason: "end_turn" });
    expect(output).toEqual([{ type: "message", role: "assistant", content: [{ type: "output_text", text: "" }] }]);
  });

  test.each([
    ["without content", { ...message, content: undefined }, /without `content`/],
    ["with a block without a type", { ...message, content: [{}] }, /without a type/],
    ["with a call without a name", { ...message, content: [{ type: "tool_use", id: "a" }] }, /without a name/],
    ["with a text for content", { ...message, content: "Hi" }, /without `content`/],
    ["with a text for a block", { ...message, content: ["Hi"] }, /`content` that is not a list of objects/],
    [
      "with a text that is none",
      { ...message, content: [{ type: "text", text: 5 }] },
      /a text block that is not a string/,
    ],
    [
      "with a number for input",
      { ...message, content: [{ type: "tool_use", id: "a", name: "f", input: 5 }] },
      /`input` that is not a string/,
    ],
    ["that is an error", { type: "error", error: { type: "api_error", message: "broke" } }, /broke/],
  ])("%s is model_failed", async (_, body, text) => {
    await expect(answerTo(body)).rejects.toMatchObject({ code: "model_failed", message: expect.stringMatching(text) });
  });
});

const events = [
  {
    type: "message_start",
    message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Look." } },
  { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "sig" } },
  { type: "content_block_stop", index: 0 },
  { type: "content_block_start", index: 1, content_block: { type: "redacted_thinking", data: "secret" } },
  { type: "content_block_stop", index: 1 },
  { type: "content_block_start", index: 2, content_block: { type: "text", text: "", citations: null } },
  { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: "Ré" } },
  { type: "content_block_delta", index: 2, delta: { type: "text_delta", text: "gen. 🌧" } },
  { type: "content_block_stop", index: 2 },
  {
    type: "content_block_start",
    index: 3,
    content_block: { type: "tool_use", id: "toolu_1", name: "weather", input: {}, caller: { type: "direct" } },
  },
  { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: "" } },
  { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '{"city": ' } },
  { type: "content_block_delta", index: 3, delta: { type: "input_json_delta", partial_json: '"Bern"}' } },
  { type: "content_block_stop", index: 3 },
  {
    type: "content_block_start",
    index: 4,
    content_block: { type: "tool_use", id: "toolu_2", name: "now", input: {}, caller: { type: "direct" } },
  },
  { type: "content_block_stop", index: 4 },
  {
    type: "message_delta",
    delta: { container: null, stop_reason: "tool_use", stop_sequence: null, stop_details: null },
    usage: { ...usage, input_tokens: null, output_tokens: 7 },
  },
  { type: "message_stop" },
] as unknown as RawMessageStreamEvent[];

const streamedAnswer = {
  id: "msg_1",
  stop_reason: "tool_use",
  status: "completed",
  usage: counted,
  output: [
    items[0],
    items[1],
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "Régen. 🌧" }] },
    { ...items[3], arguments: '{"city": "Bern"}' },
    { type: "function_call", call_id: "toolu_2", name: "now", arguments: "{}" },
  ],
};

async function streamed(...parts: (string | Uint8Array)[]): Promise<{ response: ModelResponse; pieces: Piece[] }> {
  const server = await play(stream(...parts));
  const pieces: Piece[] = [];
  const response = await modelAt(server.url).respond(hello, { onPiece: (piece) => pieces.push(piece) });
  return { response, pieces };
}

describe("a stream", () => {
  test("emits pieces, then the whole answer", async () => {
    const text = eventText([events[0], { type: "ping" }, ...events.slice(1)]);
    const { response, pieces } = await streamed(text);
    expect(response).toMatchObject(streamedAnswer);
    expect(pieces).toEqual([
      { type: "reasoning", text: "Look." },
      { type: "text", text: "Ré" },
      { type: "text", text: "gen. 🌧" },
      { type: "arguments", call_id: "toolu_1", name: "weather", text: '{"city": ' },
      { type: "arguments", call_id: "toolu_1", name: "weather", text: '"Bern"}' },
      { type: "arguments", call_id: "toolu_2", name: "now", text: "{}" },
    ]);
  });

  test("gives the same answer for every split into chunks", async () => {
    const bytes = Buffer.from(eventText(events));
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(bytes.length), { maxLength: 12 }), async (places) => {
        const cuts = [0, ...places.sort((a, b) => a - b), bytes.length];
        const parts = cuts.slice(1).map((end, at) => bytes.subarray(cuts[at], end));
        expect((await streamed(...parts)).response).toMatchObject(streamedAnswer);
      }),
      { numRuns: runs(30) },
    );
  });

  test("keeps the arguments of a truncated call, and parts of unknown kinds", async () => {
    const cutOff = [
      ...events.slice(0, 1),
      { type: "content_block_start", index: 0, content_block: { type: "compaction", content: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "compaction_delta", content: "short" } },
      { type: "content_block_start", index: 1, content_block: { type: "tool_use", id: "a", name: "f", input: {} } },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"a":"b' } },
      { type: "message_delta", delta: { stop_reason: "max_tokens" }, usage: { output_tokens: 9 } },
      { type: "message_stop" },
    ];
    const { response } = await streamed(eventText(cutOff));
    expect(response).toMatchObject({ status: "incomplete", usage: { output_tokens: 9 } });
    expect(response.output).toEqual([
      { type: "anthropic.compaction", block: { type: "compaction", content: "short" } },
      { type: "function_call", call_id: "a", name: "f", arguments: '{"a":"b' },
    ]);
  });

  test("collects citations", async () => {
    const citation = { type: "char_location", cited_text: "x" };
    const { response } = await streamed(
      eventText([
        ...events.slice(0, 1),
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "Rain.", citations: null } },
        { type: "content_block_delta", index: 0, delta: { type: "citations_delta", citation } },
        { type: "message_stop" },
      ]),
    );
    expect(response.output[0]?.["content"]).toEqual([{ type: "output_text", text: "Rain.", citations: [citation] }]);
  });

  test.each([
    ["an error", eventText([events[0], { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }])],
    ["no end", eventText(events.slice(0, -1))],
    ["no start", eventText(events.slice(-1))],
    ["parts of nothing", eventText([events[0], events[2]])],
  ])("with %s is model_failed", async (_, text) => {
    await expect(streamed(text)).rejects.toMatchObject({ code: "model_failed" });
  });
});

runModelCases("anthropicModel", async () => {
  const shapes = (block: { type: string }, empty: object, delta: object) => ({
    whole: { ...message, content: [block] },
    events: [
      events[0],
      { type: "content_block_start", index: 0, content_block: { ...block, ...empty } },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_stop" },
    ],
  });
  const server = await play(
    echo({
      said: (text) => shapes({ type: "text", text } as { type: string }, { text: "" }, { type: "text_delta", text }),
      called: (name, args) =>
        shapes(
          { type: "tool_use", id: "toolu_9", name, input: JSON.parse(args) as object } as { type: string },
          { input: {} },
          { type: "input_json_delta", partial_json: args },
        ),
    }),
  );
  return modelAt(server.url);
});

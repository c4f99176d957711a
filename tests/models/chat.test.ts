// chatModel against a server that answers like Chat Completions servers: OpenAI, vLLM, and variants.
import fc from "fast-check";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParams } from "openai/resources/chat";
import { describe, expect, expectTypeOf, test } from "vitest";
import { isFunctionCall, toText, type Item, type ModelRequest, type ModelResponse } from "../../src/core/model.ts";
import type { Piece } from "../../src/core/model.ts";
import { chatApi, chatBody, chatModel, type ChatBody } from "../../src/models/chat.ts";
import { runs } from "../runs.ts";
import { runModelCases } from "./cases.ts";
import { done, echo, eventText, json, play, stream } from "./server.ts";

const message = { role: "assistant", content: "Rain.", refusal: null } as const;
const completion = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "qwen",
  system_fingerprint: "fp_1",
  choices: [{ index: 0, message, finish_reason: "stop", logprobs: null }],
  usage: {
    prompt_tokens: 20,
    completion_tokens: 10,
    total_tokens: 30,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 3 },
  },
} satisfies ChatCompletion;

const call = (id: string, name: string, args: string) =>
  ({ id, type: "function", function: { name, arguments: args } }) as const;
const answering = (given: object, choice: object = {}): object => ({
  ...completion,
  choices: [{ ...completion.choices[0], ...choice, message: { ...message, ...given } }],
});

const user = (text: string): Item => ({ type: "message", role: "user", content: text });
const hello: ModelRequest = { input: [user("Hello")] };
const modelAt = (baseUrl: string) => chatModel({ model: "qwen", baseUrl, attempts: 1 });

async function answerTo(body: unknown, request = hello): Promise<ModelResponse> {
  const server = await play(json(body));
  return modelAt(server.url).respond(request);
}

test("requests match the official types", () => {
  expectTypeOf<ChatBody & { model: string }>().toExtend<ChatCompletionCreateParams>();
});

describe("a request", () => {
  const tools: ModelRequest["tools"] = [
    { type: "function", name: "weather", description: "The weather.", parameters: { type: "object" }, strict: true },
  ];

  test("becomes messages: one for everything the assistant does at once, and one per tool output", () => {
    const { messages } = chatBody(
      {
        instructions: "Be brief.",
        input: [
          { type: "message", role: "developer", content: "No jokes." },
          user("Weather?"),
          { type: "reasoning", summary: [{ type: "summary_text", text: "Look." }], chat_field: "reasoning_content" },
          { type: "message", role: "assistant", content: [{ type: "output_text", text: "Wait." }] },
          { type: "function_call", call_id: "a", name: "weather", arguments: "{}", token_ids: [1] },
          { type: "function_call", call_id: "b", name: "weather", arguments: "{}" },
          { type: "function_call_output", call_id: "a", output: "rain" },
          { type: "function_call_output", call_id: "b", output: [{ type: "input_text", text: "sun" }] },
          { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "of another server" }] },
          { type: "message", role: "assistant", content: "Both." },
          { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
        ],
      },
      false,
    );
    expect(messages).toEqual([
      { role: "system", content: "Be brief." },
      { role: "system", content: "No jokes." },
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: "Wait.",
        reasoning_content: "Look.",
        tool_calls: [call("a", "weather", "{}"), call("b", "weather", "{}")],
      },
      { role: "tool", tool_call_id: "a", content: "rain" },
      { role: "tool", tool_call_id: "b", content: "sun" },
      { role: "assistant", content: "Both." },
      { role: "assistant", content: null, refusal: "No." },
    ]);
  });

  test("keeps calls next to their outputs even with messages in between", () => {
    const input: Item[] = [
      { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
      { type: "message", role: "assistant", content: "One moment." },
      { type: "function_call_output", call_id: "a", output: "1" },
    ];
    expect(chatBody({ input }, false).messages).toEqual([
      { role: "assistant", content: "One moment.", tool_calls: [call("a", "f", "{}")] },
      { role: "tool", tool_call_id: "a", content: "1" },
    ]);
  });

  test("sends images and files, and passes on unknown kinds of content", () => {
    const content = [
      { type: "input_text", text: "Look:" },
      { type: "input_image", image_url: "data:image/png;base64,AA==", detail: "low" },
      { type: "input_file", file_id: "file_1" },
      { type: "video_url", video_url: { url: "https://x.test/v.mp4" } },
    ];
    expect(chatBody({ input: [{ type: "message", role: "user", content }] }, false).messages[0]?.content).toEqual([
      { type: "text", text: "Look:" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA==", detail: "low" } },
      { type: "file", file: { file_id: "file_1" } },
      { type: "video_url", video_url: { url: "https://x.test/v.mp4" } },
    ]);
  });

  test("carries tools, settings, and unknown fields for the server", async () => {
    const server = await play(json(completion));
    const choice = { type: "function", name: "weather" } as const;
    const settings = { temperature: 0, top_p: 0.9, top_k: 5, logprobs: true, chat_template_kwargs: { think: false } };
    await modelAt(server.url).respond({
      ...hello,
      tools,
      tool_choice: choice,
      parallel_tool_calls: false,
      max_output_tokens: 9,
      ...settings,
    });
    expect(server.asked[0]?.path).toBe("/chat/completions");
    expect(server.asked[0]?.headers).not.toHaveProperty("authorization");
    expect(server.asked[0]?.body).toEqual({
      model: "qwen",
      messages: [{ role: "user", content: "Hello" }],
      tools: [
        {
          type: "function",
          function: { name: "weather", description: "The weather.", parameters: { type: "object" }, strict: true },
        },
      ],
      tool_choice: { type: "function", function: { name: "weather" } },
      parallel_tool_calls: false,
      max_tokens: 9,
      ...settings,
    });
  });

  test("omits the tool fields if there are no tools", () => {
    const request: ModelRequest = { ...hello, tools: [], tool_choice: "auto", parallel_tool_calls: true };
    expect(Object.keys(chatBody(request, false))).toEqual(["messages"]);
  });

  test("uses OpenAI's newer field names with OpenAI itself", () => {
    const input: Item[] = [{ type: "message", role: "developer", content: "No jokes." }];
    expect(chatBody({ input, max_output_tokens: 9 }, true)).toEqual({
      messages: [{ role: "developer", content: "No jokes." }],
      max_completion_tokens: 9,
    });
  });
});

describe("an answer", () => {
  test("of text is a message with the tokens of its prompt, and other fields of the completion stay on the response", async () => {
    const prompt = { prompt_token_ids: [1, 2], prompt_logprobs: null };
    const text = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Rain." }] };
    expect(await answerTo({ ...completion, ...prompt })).toEqual({
      id: "chatcmpl-1",
      created: 1_700_000_000,
      model: "qwen",
      system_fingerprint: "fp_1",
      prompt_logprobs: null,
      finish_reason: "stop",
      status: "completed",
      output: [{ ...text, prompt_token_ids: [1, 2] }],
      usage: {
        input_tokens: 20,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 10,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: 30,
      },
    });
  });

  test("of SGLang has the tokens of its prompt in the choice, and continues with them", async () => {
    const { output } = await answerTo(answering({}, { prompt_token_ids: [1, 2], token_ids: [5] }));
    expect(output).toMatchObject([{ type: "message", prompt_token_ids: [1, 2], token_ids: [5] }]);
    expect(chatBody({ input: output }, false)).toMatchObject({ required_prefix_token_ids: [1, 2, 5] });
  });

  test("of all kinds becomes items in order, and extra fields of the message stay on it", async () => {
    const logprobs = { content: [{ token: "Rain", bytes: null, logprob: -0.1, top_logprobs: [] }], refusal: null };
    const given = {
      reasoning_content: "Look.",
      tool_calls: [call("a", "weather", "{}")],
      annotations: [],
      role: "assistant",
    };
    const added = { logprobs, token_ids: [5, 6], stop_reason: 7, content: "of the choice" };
    const { output } = await answerTo(answering(given, added));
    expect(output).toEqual([
      { type: "reasoning", summary: [{ type: "summary_text", text: "Look." }], chat_field: "reasoning_content" },
      {
        type: "message",
        role: "assistant",
        content: [{ type: "output_text", text: "Rain." }],
        annotations: [],
        logprobs,
        token_ids: [5, 6],
        stop_reason: 7,
        choice_content: "of the choice",
      },
      { type: "function_call", call_id: "a", name: "weather", arguments: "{}" },
    ]);
  });

  test("without text carries extra fields on its first call", async () => {
    const calls = [{ ...call("a", "f", "{}"), extra_content: { signed: "x" } }, call("b", "f", "{}")];
    const given = { content: null, tool_calls: calls, name: "bot" };
    const { output } = await answerTo(answering(given, { token_ids: [5], finish_reason: "tool_calls" }));
    expect(output).toEqual([
      {
        type: "function_call",
        call_id: "a",
        name: "f",
        arguments: "{}",
        extra_content: { signed: "x" },
        message_name: "bot",
        token_ids: [5],
      },
      { type: "function_call", call_id: "b", name: "f", arguments: "{}" },
    ]);
  });

  test("without content is a message with empty text", async () => {
    const { output } = await answerTo(answering({ content: "" }, { token_ids: [2] }));
    expect(output).toEqual([
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "" }], token_ids: [2] },
    ]);
  });

  test("that is refused has a refusal as content; content may be a list", async () => {
    const refused = await answerTo(answering({ content: null, refusal: "I cannot." }));
    expect(refused.output[0]?.["content"]).toEqual([{ type: "refusal", refusal: "I cannot." }]);
    const listed = await answerTo(answering({ content: [{ type: "text", text: "Rain." }] }));
    expect(listed.output[0]?.["content"]).toEqual([{ type: "output_text", text: "Rain." }]);
  });

  test.each([
    ["length", "max_output_tokens"],
    ["content_filter", "content_filter"],
  ])("that was ended by %s is incomplete", async (finish_reason, reason) => {
    const response = await answerTo(answering({}, { finish_reason }));
    expect(response).toMatchObject({ status: "incomplete", incomplete_details: { reason } });
  });

  test("gets new call ids if a server sends none or repeats one", async () => {
    const nameless = { type: "function", function: { name: "f", arguments: "{}" } };
    const calls = [call("old", "f", "{}"), call("a", "f", "{}"), call("a", "f", "{}"), nameless, call("", "f", "{}")];
    const input: Item[] = [
      { type: "function_call", call_id: "old", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "old", output: "1" },
    ];
    const { output } = await answerTo(answering({ content: null, tool_calls: calls }), { input });
    const ids = output.filter(isFunctionCall).map(({ call_id }) => call_id);
    expect(new Set([...ids, "old"]).size).toBe(6);
    expect(ids[1]).toBe("a");
    expect(ids.filter((id) => /^call_\w{32}$/.test(id))).toHaveLength(4);
  });

  test.each([
    [{ city: "Bern" }, '{"city":"Bern"}'],
    ["", "{}"],
    [undefined, "{}"],
    ["{oops", "{oops"],
  ])("with the arguments %j gives %s", async (given, text) => {
    const tool_calls = [{ id: "a", type: "function", function: { name: "f", arguments: given } }];
    expect((await answerTo(answering({ tool_calls }))).output[1]).toMatchObject({ arguments: text });
  });

  test.each([
    ["no choices", { ...completion, choices: [] }, /without a message in its first choice/],
    ["an error with status 200", { error: { message: "upstream is down", code: 502 } }, /upstream is down/],
    ["a choice that failed", answering({}, { error: { message: "cut off" }, finish_reason: "error" }), /cut off/],
    ["a call without a name", answering({ tool_calls: [{ id: "a", function: {} }] }), /without a function name/],
    ["a number for content", answering({ content: 5 }), /`content` that is not a list/],
    ["an object for content", answering({ content: { text: "Rain." } }), /`content` that is not a list/],
    ["texts for parts", answering({ content: ["Rain."] }), /`content` that is not a list of objects/],
    ["a part whose text is none", answering({ content: [{ type: "text", text: 5 }] }), /a part of `content`/],
    ["a refusal that is not a string", answering({ content: null, refusal: true }), /a refusal that is not a string/],
    ["an object for calls", answering({ tool_calls: call("a", "f", "{}") }), /`tool_calls` that is not a list/],
    ["a text for a call", answering({ tool_calls: ["f"] }), /`tool_calls` that is not a list of objects/],
    [
      "a number for arguments",
      answering({ tool_calls: [call("a", "f", 5 as never)] }),
      /`arguments` that is not a string/,
    ],
  ])("of %s is model_failed", async (_, body, message) => {
    await expect(answerTo(body)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(message),
    });
  });
});

type Delta = ChatCompletionChunk["choices"][number]["delta"];
const chunk = (delta: Delta & object, choice: object = {}, rest: object = {}): ChatCompletionChunk => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_700_000_000,
  model: "qwen",
  choices: [{ index: 0, delta, finish_reason: null, logprobs: null, ...choice }],
  ...rest,
});
const usageChunk: ChatCompletionChunk = { ...chunk({}), choices: [], usage: completion.usage };
const part = (index: number, args: string, id?: string, name?: string): Delta => ({
  tool_calls: [
    { index, ...(id ? { id, type: "function" } : {}), function: { ...(name ? { name } : {}), arguments: args } },
  ],
});

const logprob = (token: string): object => ({
  logprobs: { content: [{ token, bytes: null, logprob: -1, top_logprobs: [] }], refusal: null },
});
const chunks = [
  chunk({ role: "assistant", content: "" }, {}, { prompt_token_ids: [1, 2] }),
  chunk({ reasoning_content: "Lo" } as Delta),
  chunk({ reasoning_content: "ok." } as Delta),
  chunk({ content: "Ré" }, { ...logprob("Ré"), token_ids: [5] }),
  chunk({ content: "gen. 🌧" }, { ...logprob("gen"), token_ids: [6, 7] }),
  chunk(part(0, "", "a", "weather")),
  chunk(part(0, '{"city":')),
  chunk(part(1, "", "b", "now")),
  chunk(part(0, '"Bern"}')),
  chunk({}, { finish_reason: "tool_calls", stop_reason: 9 }),
  usageChunk,
];
const streamedAnswer = {
  id: "chatcmpl-1",
  created: 1_700_000_000,
  model: "qwen",
  finish_reason: "tool_calls",
  status: "completed",
  usage: { input_tokens: 20, output_tokens: 10, total_tokens: 30 },
  output: [
    { type: "reasoning", summary: [{ type: "summary_text", text: "Look." }], chat_field: "reasoning_content" },
    {
      type: "message",
      content: [{ type: "output_text", text: "Régen. 🌧" }],
      prompt_token_ids: [1, 2],
      token_ids: [5, 6, 7],
      stop_reason: 9,
      logprobs: { content: [{ token: "Ré" }, { token: "gen" }], refusal: null },
    },
    { type: "function_call", call_id: "a", name: "weather", arguments: '{"city":"Bern"}' },
    { type: "function_call", call_id: "b", name: "now", arguments: "{}" },
  ],
};

async function streamed(...parts: (string | Uint8Array)[]): Promise<{ response: ModelResponse; pieces: Piece[] }> {
  const server = await play(stream(...parts));
  const pieces: Piece[] = [];
  const response = await modelAt(server.url).respond(hello, { onPiece: (piece) => pieces.push(piece) });
  return { response, pieces };
}

describe("a stream", () => {
  test("emits pieces, then the complete answer", async () => {
    const { response, pieces } = await streamed(eventText(chunks) + done);
    expect(response).toMatchObject(streamedAnswer);
    const texts = (type: string): string =>
      pieces.flatMap((piece) => (piece.type === type ? piece.text : [])).join("|");
    expect([texts("reasoning"), texts("text")]).toEqual(["Lo|ok.", "Ré|gen. 🌧"]);
    expect(pieces.filter(({ type }) => type === "arguments")).toEqual([
      { type: "arguments", call_id: "a", name: "weather", text: '{"city":' },
      { type: "arguments", call_id: "a", name: "weather", text: '"Bern"}' },
      { type: "arguments", call_id: "b", name: "now", text: "{}" },
    ]);
  });

  test("requests the usage too", async () => {
    const server = await play(stream(eventText(chunks) + done));
    await modelAt(server.url).respond(hello, { onPiece: () => undefined });
    expect(server.asked[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });

  test("gives the same answer for every split into chunks", async () => {
    const bytes = Buffer.from(eventText(chunks) + done);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat(bytes.length), { maxLength: 12 }), async (places) => {
        const cuts = [0, ...places.sort((a, b) => a - b), bytes.length];
        const parts = cuts.slice(1).map((end, at) => bytes.subarray(cuts[at], end));
        expect((await streamed(...parts)).response).toMatchObject(streamedAnswer);
      }),
      { numRuns: runs(30) },
    );
  });

  test("needs no [DONE] after a finish reason, and is incomplete without either", async () => {
    expect((await streamed(eventText(chunks))).response.status).toBe("completed");
    await expect(streamed(eventText(chunks.slice(0, -2)))).rejects.toMatchObject({ code: "model_failed" });
    await expect(streamed(done)).rejects.toMatchObject({ code: "model_failed" });
  });

  test("separates calls with the same index or without one", async () => {
    const end = chunk({}, { finish_reason: "tool_calls" });
    const same = await streamed(
      eventText([chunk(part(0, '{"n":1}', "a", "f")), chunk(part(0, '{"n":2}', "b", "f")), end]),
    );
    const none = (args: string): object =>
      chunk({ tool_calls: [{ function: { name: "f", arguments: args } }] } as Delta);
    const unindexed = await streamed(eventText([none('{"n":1}'), none('{"n":2}'), end]));
    for (const { response } of [same, unindexed]) {
      expect(response.output).toMatchObject([{ arguments: '{"n":1}' }, { arguments: '{"n":2}' }]);
    }
  });

  test.each([
    [{ content: 5 }, /`content` that is not a list/],
    [{ content: [{ type: "text", text: 5 }] }, /`content` that is not a string/],
    [{ tool_calls: {} }, /`tool_calls` that is not a list/],
    [part(0, 5 as never, "a", "f"), /`arguments` that is not a string/],
  ])("with the delta %j is model_failed", async (delta, message) => {
    await expect(streamed(eventText([chunk(delta as Delta)]) + done)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringMatching(message),
    });
  });

  test("that reports an error in the middle is model_failed", async () => {
    const failing = eventText([
      chunks[0],
      { error: { message: "out of memory", type: "InternalServerError", code: 500 } },
    ]);
    await expect(streamed(failing)).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringContaining("out of memory"),
    });
  });
});

describe("a conversation", () => {
  const text = fc.string({ minLength: 1 });

  const turn = fc.record({
    ask: text,
    say: fc.option(text, { nil: undefined }),
    think: fc.option(text, { nil: undefined }),
    calls: fc.array(fc.record({ name: fc.stringMatching(/^[a-z]{1,8}$/), args: fc.json(), output: fc.string() }), {
      maxLength: 3,
    }),
  });

  test("keeps its texts, calls and outputs when sent as messages and read back", () => {
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 4 }), (turns) => {
        const input = turns.flatMap(({ ask, say, think, calls }, at): Item[] => [
          user(ask),
          ...(think
            ? [{ type: "reasoning", summary: [{ type: "summary_text", text: think }], chat_field: "reasoning" }]
            : []),
          ...(say || calls.length === 0
            ? [{ type: "message", role: "assistant", content: [{ type: "output_text", text: say ?? "" }] }]
            : []),
          ...calls.map(({ name, args }, n) => ({
            type: "function_call",
            call_id: `${at}.${n}`,
            name,
            arguments: args,
          })),
          ...calls.map(({ output }, n) => ({ type: "function_call_output", call_id: `${at}.${n}`, output })),
        ]);
        const { messages } = chatBody({ input }, false);
        const back = messages.flatMap((message): Item[] => {
          if (message.role === "tool") {
            return [{ type: "function_call_output", call_id: message.tool_call_id, output: message.content }];
          }
          if (message.role !== "assistant") return [user(toText(message.content as string))];
          const request = { input: [] };
          return chatApi.answer({ choices: [{ message, finish_reason: "stop" }] }, request).output;
        });
        expect(back).toEqual(input);
      }),
      { numRuns: runs(200) },
    );
  });
});

runModelCases("chatModel", async () => {
  const shapes = (given: object, delta: object, finish_reason: string) => ({
    whole: answering(given, { finish_reason }),
    events: [chunk(delta), chunk({}, { finish_reason }), usageChunk],
    end: done,
  });
  const server = await play(
    echo({
      said: (content) => shapes({ content }, { content }, "stop"),
      called: (name, args) =>
        shapes(
          { content: null, tool_calls: [call("call_9", name, args)] },
          part(0, args, "call_9", name),
          "tool_calls",
        ),
    }),
  );
  return modelAt(server.url);
});

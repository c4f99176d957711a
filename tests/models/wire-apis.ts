// The three APIs, each with a minimal answer, for the tests of their shared behaviour.
import type { Model, ModelRequest } from "../../src/core/model.ts";
import { messagesApi } from "../../src/models/anthropic.ts";
import { chatApi } from "../../src/models/chat.ts";
import { responsesApi } from "../../src/models/openai.ts";
import type { EndpointOptions } from "../../src/models/wire/endpoint.ts";
import { remoteModel, type Api, type Timing } from "../../src/models/wire/remote-model.ts";
import { done, eventText } from "./server.ts";

export interface Played {
  api: Api;
  /** An answer that says "Hi", whole and as a stream. */
  whole: object;
  stream: string;
  /** A stream up to its first piece of text. */
  begun: string;
}

const response = {
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi" }] }],
  status: "completed",
};
const textDelta = { type: "response.output_text.delta", delta: "Hi", output_index: 0 };
const chunk = { choices: [{ index: 0, delta: { content: "Hi" } }] };
const message = { role: "assistant", content: [{ type: "text", text: "Hi" }], stop_reason: "end_turn" };
const blockStart = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
const blockDelta = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hi" } };
const messageStart = { type: "message_start", message: { ...message, content: [] } };

export const apis: Played[] = [
  {
    api: responsesApi,
    whole: response,
    stream: eventText([textDelta, { type: "response.completed", response }]),
    begun: eventText([textDelta]),
  },
  {
    api: chatApi,
    whole: { choices: [{ message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }] },
    stream: eventText([chunk, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }]) + done,
    begun: eventText([chunk]),
  },
  {
    api: messagesApi,
    whole: message,
    stream: eventText([messageStart, blockStart, blockDelta, { type: "message_stop" }]),
    begun: eventText([messageStart, blockStart, blockDelta]),
  },
];

export const hello: ModelRequest = { input: [{ type: "message", role: "user", content: "Hello" }] };
export const key = "sk-secret/+key 123456";

/** Makes a model that does not wait between attempts, and records how long it would have waited. */
export function impatient(
  api: Api,
  baseUrl: string,
  options: Partial<EndpointOptions> = {},
  timing: Timing = {},
): { model: Model; waits: number[] } {
  const waits: number[] = [];
  const wait = (ms: number): Promise<void> => {
    waits.push(ms);
    return Promise.resolve();
  };
  const model = remoteModel(api, { model: "m", baseUrl, apiKey: key, ...options }, { wait, ...timing });
  return { model, waits };
}

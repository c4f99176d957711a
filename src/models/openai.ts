// openaiModel(): a model behind OpenAI's Responses API, whose items are Holdfast's items.
import { isObject } from "../core/json.ts";
import type { Item, Model, ModelResponse, Piece } from "../core/model.ts";
import type { EndpointOptions } from "./wire/endpoint.ts";
import { listIn, stringIn } from "./wire/expect.ts";
import { broken, complaintIn, complaintFault, Fault } from "./wire/fault.ts";
import { without, type Fields } from "./wire/fields.ts";
import { remoteModel, type Api, type StreamReader } from "./wire/remote-model.ts";

export type { EndpointOptions };
export type OpenaiModelOptions = EndpointOptions;

/**
 * Returns a model behind `POST /responses`, on OpenAI's server or on a server with the same API. The base URL and the
 * key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`.
 *
 * The server stores nothing unless `store` is set. OpenAI's reasoning models then require their reasoning back in
 * encrypted form: `request: { include: ["reasoning.encrypted_content"] }`.
 *
 * @example
 * const model = openaiModel({ model: "gpt-5.1", request: { temperature: 0 } });
 * const { output } = await model.respond({ input: [{ type: "message", role: "user", content: "Hello" }] });
 */
export function openaiModel(options: OpenaiModelOptions): Model {
  return remoteModel(responsesApi, options);
}

/** @internal */
export const responsesApi: Api = {
  name: "openai",
  publicUrl: "https://api.openai.com/v1",
  urlVariable: "OPENAI_BASE_URL",
  keyVariable: "OPENAI_API_KEY",
  path: () => "/responses",
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  body: (request, { isPublic }) => {
    const body = { store: false, ...request };
    if (!isPublic) return body;
    const known = body.input.flatMap(publicItem);
    body.input = body.store === false ? known.flatMap(unstored) : known;
    return body;
  },
  streaming: () => ({}),
  answer: answerIn,
  reader: readEvents,
};

/**
 * Removes fields and kinds of items that OpenAI does not know, such as other servers' token ids. Self-hosted servers
 * get these fields back, because some servers need them.
 */
function publicItem(item: Item): Item[] {
  if (item.type.includes(".")) return [];
  const fields = knownFields[item.type];
  if (!fields) return [item];
  return [Object.fromEntries(Object.entries(item).filter(([name]) => fields.includes(name))) as Item];
}

const knownFields: { [type: string]: string[] } = {
  message: ["type", "id", "status", "role", "content", "phase"],
  function_call: ["type", "id", "status", "call_id", "name", "arguments"],
  function_call_output: ["type", "id", "status", "call_id", "output"],
  reasoning: ["type", "id", "status", "summary", "content", "encrypted_content"],
};

/** Prepares an item that the server has not stored: removes its id, and drops reasoning that has only an id. */
function unstored(item: Item): Item[] {
  if (item.type === "reasoning") return typeof item["encrypted_content"] === "string" ? [item] : [];
  if (!(item.type in knownFields)) return [item];
  const { id: _, ...rest } = item;
  return [rest as Item];
}

function answerIn(body: Fields): ModelResponse {
  const { output, status = "completed", error, usage } = body;
  const complaint = complaintIn({ error }) ?? (status === "failed" ? noReason : undefined);
  if (complaint) throw complaintFault(complaint);
  if (!Array.isArray(output)) throw broken("a response without `output`");
  if (status !== "completed" && status !== "incomplete") {
    throw new Fault(`answered with a response whose status is ${String(status)}, not completed`);
  }
  for (const item of output) checkItem(item);
  // Some servers send null for a missing usage.
  return Object.assign(isObject(usage) ? body : without(body, "usage"), { output, status }) as ModelResponse;
}

const noReason = { message: "no reason was given", reasons: [] };

function checkItem(item: unknown): void {
  if (!isObject(item) || typeof item["type"] !== "string") throw broken("an item without a type");
  const texts = item["type"] === "function_call" ? ["call_id", "name", "arguments"] : [];
  if (item["type"] === "message" && typeof item["content"] !== "string") checkParts(item["content"]);
  const missing = texts.find((name) => typeof item[name] !== "string");
  if (missing !== undefined) throw broken(`a function_call without \`${missing}\``);
}

function checkParts(content: unknown): void {
  if (!Array.isArray(content)) throw broken("a message without `content`");
  for (const { text } of listIn(content, "`content`")) stringIn(text, "a part of `content`");
}

function readEvents(_request: unknown, onPiece: (piece: Piece) => void): StreamReader {
  // Calls are identified by their index in the output, because every event contains it.
  const calls = new Map<unknown, { call_id: string; name: string }>();
  const items = new Map<unknown, unknown>();

  function delta(event: Fields): void {
    const { delta: text } = event;
    if (typeof text !== "string") return;
    switch (event["type"]) {
      case "response.output_text.delta":
        return onPiece({ type: "text", text });
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return onPiece({ type: "reasoning", text });
      case "response.function_call_arguments.delta": {
        const call = calls.get(event["output_index"]);
        if (call) onPiece({ type: "arguments", ...call, text });
      }
    }
  }

  /** Returns the last event's response. If it has no items, adds the streamed items. */
  function last(response: unknown): ModelResponse {
    if (!isObject(response)) throw broken("a final event without a response");
    const { output } = response;
    const isEmpty = !Array.isArray(output) || output.length === 0;
    return answerIn(isEmpty ? { ...response, output: [...items.values()] } : response);
  }

  return {
    take(event) {
      const { item, output_index: at } = event;
      switch (event["type"]) {
        case "response.output_item.added":
          if (isObject(item) && item["type"] === "function_call") {
            calls.set(at, { call_id: String(item["call_id"]), name: String(item["name"]) });
          }
          return undefined;
        case "response.output_item.done":
          items.set(at, item);
          return undefined;
        case "response.completed":
          return last(event["response"]);
        case "response.incomplete":
          return last(isObject(event["response"]) ? { status: "incomplete", ...event["response"] } : undefined);
        case "response.failed":
          throw failed(event["response"]);
        default:
          delta(event);
          return undefined;
      }
    },
    end: () => undefined,
  };
}

function failed(response: unknown): Fault {
  return complaintFault(complaintIn(response) ?? noReason);
}

// openaiModel(): a model behind OpenAI's Responses API, whose items are ours.
import type { Item, Model, ModelResponse, Piece } from "../core/model.ts";
import type { EndpointOptions } from "./wire/endpoint.ts";
import { listIn, stringIn } from "./wire/expect.ts";
import { broken, complaintIn, faultOfComplaint, Fault } from "./wire/fault.ts";
import { isFields, without, type Fields } from "./wire/fields.ts";
import { remoteModel, type Api, type StreamReader } from "./wire/remote-model.ts";

export type OpenaiModelOptions = EndpointOptions;

/**
 * A model that is asked by `POST /responses`: OpenAI's, or one of a server that speaks the same API. The base URL and
 * the key are `OPENAI_BASE_URL` and `OPENAI_API_KEY` unless they are given.
 *
 * Nothing is stored at the server unless `store` says so. A reasoning model of OpenAI then wants its reasoning back in
 * a form that only it can read: `request: { include: ["reasoning.encrypted_content"] }`.
 *
 * @example
 * const model = openaiModel({ model: "gpt-5.1", request: { temperature: 0 } });
 * const { output } = await model.respond({ input: [{ type: "message", role: "user", content: "Hello" }] });
 */
export function openaiModel(options: OpenaiModelOptions): Model {
  return remoteModel(responsesApi, options);
}

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
 * An item as OpenAI takes it: what other servers have added to one, as token ids, is theirs, and so are kinds of theirs.
 * Servers of one's own get all of it back, as some need it.
 */
function publicItem(item: Item): Item[] {
  if (item.type.includes(".")) return [];
  const fields = fieldsOf[item.type];
  if (!fields) return [item];
  return [Object.fromEntries(Object.entries(item).filter(([name]) => fields.includes(name))) as Item];
}

const fieldsOf: { [type: string]: string[] } = {
  message: ["type", "id", "status", "role", "content", "phase"],
  function_call: ["type", "id", "status", "call_id", "name", "arguments"],
  function_call_output: ["type", "id", "status", "call_id", "output"],
  reasoning: ["type", "id", "status", "summary", "content", "encrypted_content"],
};

/**
 * An item of an answer that the server has not kept: it is not known by its id, and reasoning of which only the id could
 * tell is left out.
 */
function unstored(item: Item): Item[] {
  if (item.type === "reasoning") return typeof item["encrypted_content"] === "string" ? [item] : [];
  if (!(item.type in fieldsOf)) return [item];
  const { id: _, ...rest } = item;
  return [rest as Item];
}

function answerIn(body: Fields): ModelResponse {
  const { output, status = "completed", error, usage } = body;
  const complaint = complaintIn({ error }) ?? (status === "failed" ? noReason : undefined);
  if (complaint) throw faultOfComplaint(complaint);
  if (!Array.isArray(output)) throw broken("a response without `output`");
  if (status !== "completed" && status !== "incomplete") {
    throw new Fault(`answered with a response that is ${String(status)}; only finished ones can be read`);
  }
  for (const item of output) checkItem(item);
  // Null where there is nothing to say, in the answers of some servers.
  return Object.assign(isFields(usage) ? body : without(body, "usage"), { output, status }) as ModelResponse;
}

const noReason = { message: "no reason was given", reasons: [] };

function checkItem(item: unknown): void {
  if (!isFields(item) || typeof item["type"] !== "string") throw broken("an item without a type");
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
  // By the place in the output, which every event names.
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

  /** The response of a last event, with the items that came before it if it has none of its own. */
  function last(response: unknown): ModelResponse {
    if (!isFields(response)) throw broken("a last event without its response");
    const { output } = response;
    const isEmpty = !Array.isArray(output) || output.length === 0;
    return answerIn(isEmpty ? { ...response, output: [...items.values()] } : response);
  }

  return {
    take(event) {
      const { item, output_index: at } = event;
      switch (event["type"]) {
        case "response.output_item.added":
          if (isFields(item) && item["type"] === "function_call") {
            calls.set(at, { call_id: String(item["call_id"]), name: String(item["name"]) });
          }
          return undefined;
        case "response.output_item.done":
          items.set(at, item);
          return undefined;
        case "response.completed":
          return last(event["response"]);
        case "response.incomplete":
          return last(isFields(event["response"]) ? { status: "incomplete", ...event["response"] } : undefined);
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
  return faultOfComplaint(complaintIn(response) ?? noReason);
}

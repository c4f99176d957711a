// Dialect: a model API that harnesses speak. It converts the API's requests to Holdfast's model requests, and Holdfast's
// model responses to the API's responses.
import { invalidOption } from "../../../core/errors.ts";
import { isObject } from "../../../core/json.ts";
import type { Content, Item, ModelRequest, ModelResponse, ToolSchema, Usage } from "../../../core/model.ts";

export interface Fields {
  [name: string]: unknown;
}

/** The data of a reply. It is the same for a repeated request, so a repeat gets the same reply. */
export interface Answer {
  /** A unique id without a prefix. */
  id: string;
  /** When the model answered, in seconds since 1970. */
  created: number;
  response: ModelResponse;
  /** The request's body. */
  body: Fields;
}

export interface Dialect {
  /** The prefix of the names of models that speak this API. */
  models: string;
  /** Fields of a request that a model with this API gets unchanged. */
  passed: readonly string[];
  /** Reads a request's body. Throws `invalid_option` if it is invalid. */
  read(body: Fields): ModelRequest;
  /** Returns the whole reply. */
  whole(answer: Answer): object;
  /** Returns the reply as server-sent events. */
  frames(answer: Answer): string[];
  /** Returns the body of an error. */
  error(status: number, code: string, message: string): object;
  /** Returns an error as the last event of a stream. */
  errorFrame(body: object): string;
  /** An event that clients ignore. It keeps the connection open while the model takes long. */
  keepAlive: string;
}

/**
 * Reads a request for a model. Fields that only this API has are passed on only to a model with this API, because other
 * models would refuse them.
 */
export function readFor(dialect: Dialect, body: Fields, model: string): ModelRequest {
  const read = dialect.read(body);
  if (!model.startsWith(dialect.models)) return read;
  const given = dialect.passed.filter((name) => body[name] !== undefined && body[name] !== null);
  return { ...read, ...Object.fromEntries(given.map((name) => [name, body[name]])) };
}

/** Returns the objects of a list. Throws for any other value. */
export function objects(value: unknown, name: string): Fields[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw invalidOption(`\`${name}\` must be a list`);
  for (const [at, entry] of value.entries()) {
    if (!isObject(entry)) throw invalidOption(`\`${name}[${at}]\` must be an object`);
  }
  return value as Fields[];
}

/** Returns a string. Throws for any other value. */
export function text(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw invalidOption(`\`${name}\` must be a string`);
}

/** Returns the content of a message as one string or as parts. */
export function content<T>(value: unknown, name: string, toPart: (part: Fields) => T): string | T[] {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  return objects(value, name).map(toPart);
}

/** Builds a tool's schema. Its parameters may be missing, for a tool without arguments. */
export function toolSchema(name: unknown, description: unknown, parameters: unknown, place: string): ToolSchema {
  const schema = isObject(parameters) ? parameters : { type: "object", properties: {} };
  return {
    type: "function",
    name: text(name, `${place}.name`),
    ...(typeof description === "string" && { description }),
    parameters: schema as ToolSchema["parameters"],
  };
}

/** Builds a request without the fields that are undefined or empty lists. */
export function request(fields: Fields & { input: Item[] }): ModelRequest {
  const isGiven = ([, value]: [string, unknown]): boolean =>
    value !== undefined && !(Array.isArray(value) && value.length === 0);
  return { ...Object.fromEntries(Object.entries(fields).filter(isGiven)), input: fields.input };
}

export const frame = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;

/** Returns the text of each part of an assistant's message, and whether the part is a refusal. */
export function saidIn(parts: string | Content[]): { text: string; isRefusal: boolean }[] {
  if (typeof parts === "string") return parts === "" ? [] : [{ text: parts, isRefusal: false }];
  return parts.flatMap((part) => {
    const isRefusal = part.type === "refusal";
    const said = isRefusal ? part["refusal"] : part.text;
    return typeof said === "string" && said !== "" ? [{ text: said, isRefusal }] : [];
  });
}

export const isReasoning = (item: Item): item is Item & { summary: Content[] } =>
  item.type === "reasoning" && Array.isArray(item["summary"]);

const mark = "holdfast.";

/**
 * Returns a string that carries a reasoning item through a harness. The string is the signature or the encrypted
 * content from the model's server, or the name of the field that had the reasoning.
 */
export function sealOf({ signature, encrypted_content: encrypted, chat_field: field }: Item): string {
  if (typeof signature === "string") return signature;
  if (typeof encrypted === "string") return encrypted;
  return mark + (typeof field === "string" ? field : "");
}

/** Returns the fields in a string from `sealOf`. */
export function unsealed(seal: unknown, name: "signature" | "encrypted_content"): Fields {
  if (typeof seal !== "string") return {};
  if (!seal.startsWith(mark)) return { [name]: seal };
  return seal === mark ? {} : { chat_field: seal.slice(mark.length) };
}

export function usageOf({ usage }: ModelResponse): { input: number; output: number; cached: number; thought: number } {
  const count = (value: unknown): number => (typeof value === "number" ? value : 0);
  const { input_tokens_details: read, output_tokens_details: written } = (usage ?? {}) as Usage;
  return {
    input: count(usage?.input_tokens),
    output: count(usage?.output_tokens),
    cached: count((Object(read) as Fields)["cached_tokens"]),
    thought: count((Object(written) as Fields)["reasoning_tokens"]),
  };
}

/** The error code of a request that is longer than the model's context. */
export const tooLong = "context_length_exceeded";

/** The error of OpenAI's APIs. */
export const openaiError = (status: number, code: string, message: string): object => {
  const type = status >= 500 ? "server_error" : "invalid_request_error";
  return { error: { message, type, param: null, code } };
};

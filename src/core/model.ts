// Model: takes a request, returns items. All names come from OpenAI's Responses API.
import type { Json } from "./json.ts";

/**
 * One entry of a conversation. Fields added by a server are kept, for example token ids and log probabilities for
 * training.
 */
export type Item = Message | FunctionCall | FunctionCallOutput | Reasoning | OtherItem;

interface Added {
  id?: string;
  status?: string;
  [added: string]: unknown;
}

export interface Message extends Added {
  type: "message";
  role: "user" | "assistant" | "system" | "developer";
  content: string | Content[];
}

export interface Content {
  /** "input_text", "output_text", "refusal", or an unknown kind, which is passed through unchanged. */
  type: string;
  text?: string;
  [added: string]: unknown;
}

export interface FunctionCall extends Added {
  type: "function_call";
  call_id: string;
  name: string;
  /** JSON, or the invalid text that the model wrote. */
  arguments: string;
}

export interface FunctionCallOutput extends Added {
  type: "function_call_output";
  call_id: string;
  output: string | Content[];
}

export interface Reasoning extends Added {
  type: "reasoning";
  summary: Content[];
}

/** An unknown kind. It is kept and sent back to the server it came from. */
export interface OtherItem extends Added {
  type: string & {};
}

export interface ToolSchema {
  type: "function";
  name: string;
  description?: string;
  /** JSON Schema. */
  parameters: { [keyword: string]: Json };
  strict?: boolean;
}

/**
 * The body of `POST /responses` without the model's name. Other fields are passed through to servers that support them.
 */
export interface ModelRequest {
  instructions?: string;
  input: Item[];
  tools?: ToolSchema[];
  tool_choice?: "auto" | "none" | "required" | { type: "function"; name: string };
  parallel_tool_calls?: boolean;
  temperature?: number;
  top_p?: number;
  max_output_tokens?: number;
  [added: string]: unknown;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  [added: string]: unknown;
}

/** The response to `POST /responses`, or an equivalent. */
export interface ModelResponse {
  id?: string;
  model?: string;
  output: Item[];
  usage?: Usage;
  /** "incomplete" if it was cut off, for example by `max_output_tokens`. */
  status: "completed" | "incomplete";
  [added: string]: unknown;
}

/** A piece of an answer in progress. The complete answer follows and includes it. */
export type Piece =
  { type: "text" | "reasoning"; text: string } | { type: "arguments"; call_id: string; name: string; text: string };

export interface RespondOptions {
  signal?: AbortSignal | undefined;
  /** If set, the answer is requested as a stream, and this is called with each piece. */
  onPiece?: ((piece: Piece) => void) | undefined;
  /** The limit on the answer's tokens for an API that requires one, if the request has no `max_output_tokens`. */
  maxTokens?: number | undefined;
}

export interface Model {
  /** The model's name, for example "openai:NAME". */
  readonly name: string;
  /** Rejects with a HoldfastError if there is no answer. */
  respond(request: ModelRequest, options?: RespondOptions): Promise<ModelResponse>;
}

/** Returns the text of a message's content or of a tool's output. */
export function toText(content: string | Content[]): string {
  if (typeof content === "string") return content;
  // A row written by another program may have parts that are not objects.
  return content.map((part: Content | null) => (typeof part?.text === "string" ? part.text : "")).join("");
}

/** Like `toText`, for people: a part without text becomes its type in brackets. */
export function readableText(content: string | Content[]): string {
  if (typeof content === "string") return content;
  const texts = content.map((part) => {
    const text: unknown = part?.text ?? part?.["refusal"];
    return typeof text === "string" ? text : `[${String(part?.type)}]`;
  });
  return texts.join("");
}

/** Returns the text of a reasoning item: its summary and its content. */
export function thoughtText({ summary, content }: Item): string {
  return [summary, content].flatMap((parts) => (Array.isArray(parts) ? toText(parts as Content[]) : [])).join("\n");
}

export const isMessage = (item: Item): item is Message => item.type === "message";
export const isFunctionCall = (item: Item): item is FunctionCall => item.type === "function_call";

/**
 * Returns the text of an answer's messages.
 *
 * @example
 * if (event.type === "model.answered") console.log(answerText(event.items));
 */
export function answerText(output: Item[]): string {
  return output.flatMap((item) => (isMessage(item) && item.role === "assistant" ? toText(item.content) : [])).join("");
}

/** Describes the first problem in a list of items; undefined if they are valid. A log stores only valid items. */
export function faultInItems(items: unknown): string | undefined {
  if (!Array.isArray(items)) return "it is not a list of items";
  for (const [at, item] of items.entries()) {
    const fault = faultInItem(item);
    if (fault) return `item ${at} ${fault}`;
  }
  return undefined;
}

function faultInItem(item: unknown): string | undefined {
  if (typeof item !== "object" || item === null || Array.isArray(item)) return "is not an object";
  const { type, role, content, output, call_id, name, arguments: args } = item as { [field: string]: unknown };
  switch (type) {
    case "message":
      if (typeof role !== "string" || !["user", "assistant", "system", "developer"].includes(role))
        return "is a message without a role";
      return isContent(content) ? undefined : "is a message whose content is neither a text nor a list of parts";
    case "function_call":
      if (typeof call_id !== "string" || typeof name !== "string") return "is a call without `call_id` or `name`";
      return typeof args === "string" ? undefined : "is a call whose `arguments` are not a text";
    case "function_call_output":
      if (typeof call_id !== "string") return "is the output of a call without `call_id`";
      return isContent(output) ? undefined : "is an output that is neither a text nor a list of parts";
    default:
      return typeof type === "string" && type !== "" ? undefined : "has no type";
  }
}

const isContent = (content: unknown): boolean =>
  typeof content === "string" ||
  (Array.isArray(content) && content.every((part) => typeof part === "object" && part !== null));

/**
 * Counts the assistant's turns in a conversation. A turn is a maximal run of consecutive assistant items: messages,
 * calls, reasoning and unknown kinds. Other messages and tool outputs (types ending in `_output`) end a turn.
 *
 * So an answer with several items is one turn, and so are consecutive answers without any other item between them.
 * An answer without items is not counted.
 */
export function assistantTurns(input: readonly Item[]): number {
  return input.filter((item, at) => isAssistants(item) && !isAssistants(input[at - 1])).length;
}

function isAssistants(item: Item | undefined): boolean {
  if (!item) return false;
  return item.type === "message" ? item["role"] === "assistant" : !item.type.endsWith("_output");
}

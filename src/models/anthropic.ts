// anthropicModel(): a model behind Anthropic's Messages API.
import type { Model, ModelRequest, ToolSchema } from "../core/model.ts";
import { answerIn } from "./anthropic/answer.ts";
import { toMessages, type AnthropicMessage } from "./anthropic/messages.ts";
import { readEvents } from "./anthropic/stream.ts";
import { callIdsFor } from "./wire/call-ids.ts";
import type { EndpointOptions } from "./wire/endpoint.ts";
import { addOthers } from "./wire/fields.ts";
import { mapped, remoteModel, type Api } from "./wire/remote-model.ts";

export type { EndpointOptions };
export type AnthropicModelOptions = EndpointOptions;

/**
 * Returns a model behind `POST /v1/messages`, on Anthropic's server or on a server with the same API. The base URL and
 * the key default to `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`.
 *
 * The API requires a limit on every answer; it defaults to 4,096 tokens, set by `max_output_tokens`. Settings of the
 * API that Holdfast does not name are passed on: `request: { thinking: { type: "adaptive" } }`. `usage.input_tokens`
 * includes tokens read from and written to the cache.
 *
 * @example
 * const model = anthropicModel({ model: "claude-sonnet-4-5", request: { max_output_tokens: 16_000 } });
 * const { output } = await model.respond({ input: [{ type: "message", role: "user", content: "Hello" }] });
 */
export function anthropicModel(options: AnthropicModelOptions): Model {
  return remoteModel(messagesApi, options);
}

/** @internal */
export const messagesApi: Api = {
  name: "anthropic",
  publicUrl: "https://api.anthropic.com",
  urlVariable: "ANTHROPIC_BASE_URL",
  keyVariable: "ANTHROPIC_API_KEY",
  // Base URLs often include the version, because the other APIs' base URLs do.
  path: (base) => (base.endsWith("/v1") ? "/messages" : "/v1/messages"),
  keyHeader: (key) => ({ "x-api-key": key }),
  headers: { "anthropic-version": "2023-06-01" },
  body: (request, { maxTokens }) => addOthers(anthropicBody(request, maxTokens), request, mapped),
  streaming: () => ({}),
  answer: (body, request) => answerIn(body, callIdsFor(request)),
  reader: (request, onPiece) => readEvents(callIdsFor(request), onPiece),
};

/**
 * The body, without the fields that are passed through unchanged.
 *
 * @internal
 */
export interface AnthropicBody {
  max_tokens: number;
  messages: AnthropicMessage[];
  system?: string;
  tools?: AnthropicTool[];
  tool_choice?: ToolChoice;
}

interface AnthropicTool {
  name: string;
  description?: string;
  input_schema: { type: "object"; [keyword: string]: unknown };
  strict?: boolean;
}

type ToolChoice =
  | { type: "auto" | "any"; disable_parallel_tool_use?: boolean }
  | { type: "tool"; name: string; disable_parallel_tool_use?: boolean }
  | { type: "none" };

/** @internal */
export function anthropicBody(request: ModelRequest, maxTokens = 4_096): AnthropicBody {
  const { tools = [], max_output_tokens: most = maxTokens } = request;
  const choice = tools.length === 0 ? undefined : toChoice(request);
  return {
    max_tokens: most,
    ...toMessages(request),
    ...(tools.length === 0 ? {} : { tools: tools.map(toTool) }),
    ...(choice ? { tool_choice: choice } : {}),
  };
}

function toTool({ name, description, parameters, strict }: ToolSchema): AnthropicTool {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: { ...parameters, type: "object" },
    ...(strict === undefined ? {} : { strict }),
  };
}

function toChoice({ tool_choice: choice, parallel_tool_calls: parallel }: ModelRequest): ToolChoice | undefined {
  if (choice === "none") return { type: "none" };
  const serial = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (typeof choice === "object") return { type: "tool", name: choice.name, ...serial };
  if (choice === "required") return { type: "any", ...serial };
  return choice === "auto" || parallel === false ? { type: "auto", ...serial } : undefined;
}

// chatModel(): a model behind the Chat Completions API, which nearly every model server supports.
import { isObject } from "../core/json.ts";
import type { Model, ModelRequest } from "../core/model.ts";
import { prefixTokens } from "../core/tokens.ts";
import { answerIn } from "./chat/answer.ts";
import { toChatMessages, type ChatMessage } from "./chat/messages.ts";
import { readChunks } from "./chat/stream.ts";
import { callIdsFor } from "./wire/call-ids.ts";
import type { EndpointOptions } from "./wire/endpoint.ts";
import { addOthers } from "./wire/fields.ts";
import { mapped, remoteModel, type Api } from "./wire/remote-model.ts";

export type { EndpointOptions };
export type ChatModelOptions = EndpointOptions;

/**
 * Returns a model behind `POST /chat/completions` of vLLM, Ollama, LM Studio, llama.cpp, a proxy, or OpenAI. The base
 * URL and the key default to `OPENAI_BASE_URL` and `OPENAI_API_KEY`. A self-hosted server needs no key.
 *
 * API settings that Holdfast does not name are passed through: `request: { return_token_ids: true }`. Fields that the
 * server adds to its message or choice, such as `logprobs` and `token_ids`, are copied to the answer's message. If
 * there is no message, they are copied to the first call. The same applies to the completion's `prompt_token_ids`.
 * Other fields added to the completion are copied to the response.
 *
 * After an answer with its tokens, the next request has `required_prefix_token_ids`: the conversation's tokens so far,
 * as they were sampled. Servers that support it, such as NeMo RL's, do not tokenize them again.
 *
 * OpenAI's own server gets `max_completion_tokens` and the role "developer". Other servers get `max_tokens` and
 * "system", which all of them support.
 *
 * @example
 * const model = chatModel({ model: "Qwen/Qwen3-8B", baseUrl: "http://127.0.0.1:8000/v1" });
 * const { output } = await model.respond({ input: [{ type: "message", role: "user", content: "Hello" }] });
 */
export function chatModel(options: ChatModelOptions): Model {
  return remoteModel(chatApi, options);
}

/** @internal */
export const chatApi: Api = {
  name: "chat",
  publicUrl: "https://api.openai.com/v1",
  urlVariable: "OPENAI_BASE_URL",
  keyVariable: "OPENAI_API_KEY",
  path: () => "/chat/completions",
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  body: (request, { isPublic }) => addOthers(chatBody(request, isPublic), request, mapped),
  streaming: ({ stream_options: given }) => ({
    stream_options: { include_usage: true, ...(isObject(given) ? given : {}) },
  }),
  answer: (body, request) => answerIn(body, callIdsFor(request)),
  reader: (request, onPiece) => readChunks(callIdsFor(request), onPiece),
};

/**
 * The body, without the fields that are passed through unchanged.
 *
 * @internal
 */
export interface ChatBody {
  messages: ChatMessage[];
  tools?: ChatTool[];
  tool_choice?: "auto" | "none" | "required" | { type: "function"; function: { name: string } };
  parallel_tool_calls?: boolean;
  max_tokens?: number;
  max_completion_tokens?: number;
  required_prefix_token_ids?: number[];
}

interface ChatTool {
  type: "function";
  function: { name: string; description?: string; parameters: { [keyword: string]: unknown }; strict?: boolean };
}

/** @internal */
export function chatBody(request: ModelRequest, isPublic: boolean): ChatBody {
  const { tools = [], tool_choice: choice, parallel_tool_calls: parallel, max_output_tokens: most } = request;
  const body: ChatBody = { messages: toChatMessages(request, isPublic ? "developer" : "system") };
  if (most !== undefined) body[isPublic ? "max_completion_tokens" : "max_tokens"] = most;
  const prefix = prefixTokens(request.input);
  if (prefix) body.required_prefix_token_ids = prefix;
  // Servers refuse the other fields about tools if there are no tools.
  if (tools.length === 0) return body;
  body.tools = tools.map(({ type, ...tool }) => ({ type, function: tool }));
  if (choice !== undefined) body.tool_choice = toChoice(choice);
  if (parallel !== undefined) body.parallel_tool_calls = parallel;
  return body;
}

function toChoice(choice: NonNullable<ModelRequest["tool_choice"]>): NonNullable<ChatBody["tool_choice"]> {
  return typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } };
}

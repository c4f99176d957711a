// chatModel(): a model behind the Chat Completions API, which nearly every server of models speaks.
import type { Model, ModelRequest } from "../core/model.ts";
import { answerIn } from "./chat/answer.ts";
import { messagesOf, type ChatMessage } from "./chat/messages.ts";
import { readChunks } from "./chat/stream.ts";
import { callIdsFor } from "./wire/call-ids.ts";
import type { EndpointOptions } from "./wire/endpoint.ts";
import { addOthers, isFields } from "./wire/fields.ts";
import { remoteModel, type Api } from "./wire/remote-model.ts";

export type ChatModelOptions = EndpointOptions;

/**
 * A model that is asked by `POST /chat/completions`: of vLLM, Ollama, LM Studio, llama.cpp, a proxy, or OpenAI. The base
 * URL and the key are `OPENAI_BASE_URL` and `OPENAI_API_KEY` unless they are given; a server of one's own needs no key.
 *
 * Settings that the API has and Holdfast does not name are passed on: `request: { return_token_ids: true }`. What the
 * server adds to its message or its choice, such as `logprobs` and `token_ids`, rides on the answer's message, or
 * on its first call if it says nothing; what it adds to the completion is on the response.
 *
 * OpenAI's own server is told `max_completion_tokens` and the role "developer"; any other is told `max_tokens` and
 * "system", which all of them know.
 *
 * @example
 * const model = chatModel({ model: "Qwen/Qwen3-8B", baseUrl: "http://127.0.0.1:8000/v1" });
 * const { output } = await model.respond({ input: [{ type: "message", role: "user", content: "Hello" }] });
 */
export function chatModel(options: ChatModelOptions): Model {
  return remoteModel(chatApi, options);
}

export const chatApi: Api = {
  name: "chat",
  publicUrl: "https://api.openai.com/v1",
  urlVariable: "OPENAI_BASE_URL",
  keyVariable: "OPENAI_API_KEY",
  path: () => "/chat/completions",
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  body: (request, { isPublic }) => addOthers(chatBody(request, isPublic), request, mapped),
  streaming: ({ stream_options: given }) => ({
    stream_options: { include_usage: true, ...(isFields(given) ? given : {}) },
  }),
  answer: (body, request) => answerIn(body, callIdsFor(request)),
  reader: (request, onPiece) => readChunks(callIdsFor(request), onPiece),
};

/** The fields of a request that have another name or shape here. All others are passed on. */
const mapped = ["instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens"];

/** What is sent, less what is passed on untouched. */
export interface ChatBody {
  messages: ChatMessage[];
  tools?: ChatTool[];
  tool_choice?: "auto" | "none" | "required" | { type: "function"; function: { name: string } };
  parallel_tool_calls?: boolean;
  max_tokens?: number;
  max_completion_tokens?: number;
}

interface ChatTool {
  type: "function";
  function: { name: string; description?: string; parameters: { [keyword: string]: unknown }; strict?: boolean };
}

export function chatBody(request: ModelRequest, isPublic: boolean): ChatBody {
  const { tools = [], tool_choice: choice, parallel_tool_calls: parallel, max_output_tokens: most } = request;
  const body: ChatBody = { messages: messagesOf(request, isPublic ? "developer" : "system") };
  if (most !== undefined) body[isPublic ? "max_completion_tokens" : "max_tokens"] = most;
  // Without tools, servers refuse every other word about them.
  if (tools.length === 0) return body;
  body.tools = tools.map(({ type, ...tool }) => ({ type, function: tool }));
  if (choice !== undefined) body.tool_choice = choiceOf(choice);
  if (parallel !== undefined) body.parallel_tool_calls = parallel;
  return body;
}

function choiceOf(choice: NonNullable<ModelRequest["tool_choice"]>): NonNullable<ChatBody["tool_choice"]> {
  return typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } };
}

// The Chat Completions API.
import { invalidOption } from "../../../core/errors.ts";
import { isObject } from "../../../core/json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item, type ModelRequest } from "../../../core/model.ts";
import {
  content,
  isReasoning,
  objects,
  openaiError,
  request,
  saidIn,
  text,
  toolSchema,
  usageOf,
  type Answer,
  type Dialect,
  type Fields,
} from "./dialect.ts";

const reasoningFields = ["reasoning_content", "reasoning"] as const;

export const chat: Dialect = {
  models: "chat:",
  passed: ["stop", "response_format", "reasoning_effort", "verbosity"],
  read(body): ModelRequest {
    if (body["n"] !== undefined && body["n"] !== null && body["n"] !== 1) throw invalidOption("`n` must be 1");
    if (!Array.isArray(body["messages"])) throw invalidOption("`messages` must be a list");
    return request({
      input: objects(body["messages"], "messages").flatMap(toItems),
      tools: objects(body["tools"], "tools").flatMap((tool, at) => {
        if (tool["type"] !== "function" || !isObject(tool["function"])) return [];
        const { name, description, parameters } = tool["function"];
        return [toolSchema(name, description, parameters, `tools[${at}].function`)];
      }),
      tool_choice: toChoice(body["tool_choice"]),
      parallel_tool_calls: typeof body["parallel_tool_calls"] === "boolean" ? body["parallel_tool_calls"] : undefined,
    });
  },
  whole(answer) {
    const { id, created, response, body } = answer;
    const message = toMessage(response.output);
    return {
      id: `chatcmpl-${id}`,
      object: "chat.completion",
      created,
      model: modelIn(body, response.model),
      choices: [{ index: 0, message, finish_reason: finishOf(answer), logprobs: null }],
      usage: toUsage(answer),
    };
  },
  frames(answer) {
    const { id, created, response, body } = answer;
    const head = { id: `chatcmpl-${id}`, object: "chat.completion.chunk", created };
    const { tool_calls: calls, ...said } = toMessage(response.output);
    const chunk = (fields: object): string =>
      `data: ${JSON.stringify({ ...head, model: modelIn(body, response.model), ...fields })}\n\n`;
    const delta = (given: object, finish: string | null = null): string =>
      chunk({ choices: [{ index: 0, delta: given, finish_reason: finish, logprobs: null }] });
    const { include_usage: isCounted } = Object(body["stream_options"]) as Fields;
    return [
      delta(said),
      ...(calls ?? []).map((call, index) => delta({ tool_calls: [{ index, ...call }] })),
      delta({}, finishOf(answer)),
      ...(isCounted === true ? [chunk({ choices: [], usage: toUsage(answer) })] : []),
      "data: [DONE]\n\n",
    ];
  },
  error: openaiError,
  errorFrame: (body) => `data: ${JSON.stringify(body)}\n\n`,
  keepAlive: ": the model is answering\n\n",
};

const modelIn = ({ model }: Fields, own: string | undefined): string =>
  typeof model === "string" ? model : (own ?? "model");

function toItems(message: Fields, at: number): Item[] {
  const { role, content: said } = message;
  const place = `messages[${at}]`;
  switch (role) {
    case "system":
    case "developer":
    case "user":
      return [{ type: "message", role, content: content(said, `${place}.content`, inputPart) }];
    case "tool": {
      const id = text(message["tool_call_id"], `${place}.tool_call_id`);
      return [{ type: "function_call_output", call_id: id, output: content(said, `${place}.content`, inputPart) }];
    }
    case "assistant":
      return assistantItems(message, place);
    default:
      throw invalidOption(`\`${place}.role\` must be system, developer, user, assistant or tool`);
  }
}

function assistantItems(message: Fields, place: string): Item[] {
  const field = reasoningFields.find((name) => typeof message[name] === "string" && message[name] !== "");
  const thought: Item[] = field
    ? [
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: message[field] as string }],
          chat_field: field,
        },
      ]
    : [];
  const parts = content(message["content"], `${place}.content`, outputPart);
  const { refusal } = message;
  const said: Content[] = [
    ...(typeof parts === "string" ? (parts === "" ? [] : [{ type: "output_text", text: parts }]) : parts),
    ...(typeof refusal === "string" ? [{ type: "refusal", refusal }] : []),
  ];
  const calls = objects(message["tool_calls"], `${place}.tool_calls`).map((call, at): Item => {
    const { name, arguments: given } = Object(call["function"]) as Fields;
    const where = `${place}.tool_calls[${at}]`;
    return {
      type: "function_call",
      call_id: text(call["id"], `${where}.id`),
      name: text(name, `${where}.function.name`),
      arguments: text(given, `${where}.function.arguments`),
    };
  });
  return [...thought, ...(said.length > 0 ? [{ type: "message", role: "assistant", content: said }] : []), ...calls];
}

const inputPart = (part: Fields): Content => toPart(part, "input_text");
const outputPart = (part: Fields): Content => toPart(part, "output_text");

function toPart(part: Fields, textType: string): Content {
  const { type, image_url: image } = part;
  if (type === "text") return { type: textType, text: text(part["text"], "text of a part") };
  if (type === "image_url" && isObject(image)) {
    const { url, detail } = image;
    return { type: "input_image", image_url: text(url, "image_url.url"), ...(detail ? { detail } : {}) };
  }
  return { ...part, type: text(type, "type of a part") };
}

function toChoice(choice: unknown): ModelRequest["tool_choice"] {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  const { name } = Object((Object(choice) as Fields)["function"]) as Fields;
  return typeof name === "string" ? { type: "function", name } : undefined;
}

interface ChatMessage {
  role: "assistant";
  content: string | null;
  refusal: string | null;
  reasoning_content?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
}

function toMessage(output: Item[]): ChatMessage {
  const parts = output.flatMap((item) => (isMessage(item) ? saidIn(item.content) : []));
  const joined = (isRefusal: boolean): string | null => {
    const texts = parts.filter((part) => part.isRefusal === isRefusal).map((part) => part.text);
    return texts.length > 0 ? texts.join("") : null;
  };
  const thought = output.flatMap((item) => (isReasoning(item) ? toText(item.summary) : [])).join("\n");
  const calls = output.filter(isFunctionCall).map(({ call_id: id, name, arguments: given }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: given },
  }));
  return {
    role: "assistant",
    content: joined(false) ?? (calls.length > 0 ? null : ""),
    refusal: joined(true),
    ...(thought !== "" && { reasoning_content: thought }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function finishOf({ response }: Answer): string {
  if (response.status === "incomplete") {
    const { reason } = Object(response["incomplete_details"]) as Fields;
    return reason === "content_filter" ? reason : "length";
  }
  return response.output.some(isFunctionCall) ? "tool_calls" : "stop";
}

function toUsage({ response }: Answer): object {
  const { input, output, cached, thought } = usageOf(response);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: thought },
  };
}

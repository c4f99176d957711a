// Anthropic's Messages API.
import { invalidOption, isHoldfastError } from "../../core/errors.ts";
import { copyJson, isObject, parseJson } from "../../core/json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item, type ModelRequest } from "../../core/model.ts";
import {
  content,
  frame,
  isReasoning,
  objects,
  request,
  saidIn,
  sealOf,
  text,
  toolSchema,
  tooLong,
  unsealed,
  usageOf,
  type Answer,
  type Dialect,
  type Fields,
} from "../http/dialects/dialect.ts";

const tooLongWords = "prompt is too long";

/** The key under which invalid arguments of a call are sent, as Anthropic documents it. */
const invalidJson = "INVALID_JSON";

export const messages: Dialect = {
  models: "anthropic:",
  // Other fields, such as `thinking`, are not passed on: they depend on the model, which the harness does not know.
  passed: ["stop_sequences"],
  read(body): ModelRequest {
    if (!Array.isArray(body["messages"])) throw invalidOption("`messages` must be a list");
    const { tool_choice: choice } = body;
    const { disable_parallel_tool_use: isSerial } = Object(choice) as Fields;
    return request({
      instructions: systemText(body["system"]),
      input: objects(body["messages"], "messages").flatMap(toItems),
      tools: objects(body["tools"], "tools").flatMap((tool, at) => {
        // Tools with another type run on Anthropic's servers.
        if (tool["type"] !== undefined && tool["type"] !== null && tool["type"] !== "custom") return [];
        return [toolSchema(tool["name"], tool["description"], tool["input_schema"], `tools[${at}]`)];
      }),
      tool_choice: toChoice(choice),
      parallel_tool_calls: isSerial === true ? false : undefined,
    });
  },
  whole(answer) {
    return { ...opening(answer), content: blocksOf(answer), stop_reason: stopOf(answer), usage: toUsage(answer) };
  },
  frames(answer) {
    const usage = toUsage(answer);
    return [
      frame("message_start", {
        type: "message_start",
        message: { ...opening(answer), usage: { ...usage, output_tokens: 1 } },
      }),
      ...blocksOf(answer).flatMap(blockFrames),
      frame("message_delta", {
        type: "message_delta",
        delta: { stop_reason: stopOf(answer), stop_sequence: null },
        usage,
      }),
      frame("message_stop", { type: "message_stop" }),
    ];
  },
  error(status, code, message) {
    // Claude Code recognises the error for a request that is too long by these words.
    const said = code === tooLong && !message.includes(tooLongWords) ? `${tooLongWords}: ${message}` : message;
    return { type: "error", error: { type: errorType(status), message: said }, code };
  },
  errorFrame: (body) => frame("error", body),
  keepAlive: frame("ping", { type: "ping" }),
};

function errorType(status: number): string {
  const types: { [status: number]: string } = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
  };
  return types[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

function systemText(system: unknown): string | undefined {
  const given = content(system, "system", (block) => text(block["text"], "system[].text"));
  return (typeof given === "string" ? given : given.join("\n\n")) || undefined;
}

function toItems({ role, content: given }: Fields, at: number): Item[] {
  if (role !== "user" && role !== "assistant" && role !== "system") {
    throw invalidOption(`\`messages[${at}].role\` must be user, assistant or system`);
  }
  if (typeof given === "string") return [{ type: "message", role, content: given }];
  const items: Item[] = [];
  for (const block of objects(given, `messages[${at}].content`)) {
    const item = toItem(block);
    const last = items.at(-1);
    if (item) items.push(item);
    else if (last && isMessage(last)) (last.content as Content[]).push(toPart(block, role));
    else items.push({ type: "message", role, content: [toPart(block, role)] });
  }
  return items;
}

/** Converts a block that becomes a separate item; undefined for other blocks. */
function toItem(block: Fields): Item | undefined {
  switch (block["type"]) {
    case "tool_use": {
      const { input } = block;
      const given = isObject(input) && Object.keys(input).length === 1 ? input[invalidJson] : undefined;
      return {
        type: "function_call",
        call_id: text(block["id"], "id of a tool_use"),
        name: text(block["name"], "name of a tool_use"),
        arguments: typeof given === "string" ? given : JSON.stringify(input ?? {}),
      };
    }
    case "tool_result":
      return {
        type: "function_call_output",
        call_id: text(block["tool_use_id"], "tool_use_id of a tool_result"),
        output: content(block["content"], "content of a tool_result", (part) => toPart(part, "user")),
        ...(block["is_error"] === true && { is_error: true }),
      };
    case "thinking":
      return {
        type: "reasoning",
        summary: [{ type: "summary_text", text: text(block["thinking"], "thinking") }],
        ...unsealed(block["signature"], "signature"),
      };
    case "redacted_thinking":
      return { type: "reasoning", summary: [], data: text(block["data"], "data of a redacted_thinking") };
    default:
      return undefined;
  }
}

function toPart(block: Fields, role: string): Content {
  const { type, source } = block;
  if (type === "text") {
    return { type: role === "assistant" ? "output_text" : "input_text", text: text(block["text"], "text of a block") };
  }
  if (type === "image" && isObject(source)) {
    const { media_type: kind, data, url } = source;
    const isUrl = source["type"] === "url";
    return {
      type: "input_image",
      image_url: isUrl
        ? text(url, "source.url")
        : `data:${text(kind, "source.media_type")};base64,${text(data, "source.data")}`,
    };
  }
  const { cache_control: _, ...part } = block;
  return { ...part, type: text(type, "type of a block") };
}

function toChoice(choice: unknown): ModelRequest["tool_choice"] {
  const { type, name } = Object(choice) as Fields;
  if (type === "auto" || type === "none") return type;
  if (type === "any") return "required";
  return type === "tool" && typeof name === "string" ? { type: "function", name } : undefined;
}

function opening({ id, response, body }: Answer): object {
  const model = typeof body["model"] === "string" ? body["model"] : (response.model ?? "model");
  return {
    id: `msg_${id}`,
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
  };
}

type Block =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id: string; name: string; input: object };

function blocksOf({ response, body }: Answer): Block[] {
  const { type: thinking = "disabled" } = Object(body["thinking"]) as Fields;
  return response.output.flatMap((item): Block[] => {
    if (isMessage(item)) return saidIn(item.content).map((said) => ({ type: "text", text: said.text }));
    if (isFunctionCall(item)) {
      return [{ type: "tool_use", id: item.call_id, name: item.name, input: argumentsIn(item.arguments) }];
    }
    if (!isReasoning(item) || thinking === "disabled") return [];
    if (typeof item["data"] === "string") return [{ type: "redacted_thinking", data: item["data"] }];
    return [{ type: "thinking", thinking: toText(item.summary), signature: sealOf(item) }];
  });
}

/** Returns a call's arguments as an object. Invalid arguments become the text of one field. */
function argumentsIn(given: string): object {
  try {
    // Refuses arguments that are nested too deeply, because nothing could write them as JSON again.
    const input = copyJson(parseJson(given), "the arguments");
    if (isObject(input)) return input;
  } catch (thrown) {
    if (!isHoldfastError(thrown)) throw thrown;
  }
  return { [invalidJson]: given };
}

/** Returns a block as events. Its text comes in one piece. */
function blockFrames(block: Block, index: number): string[] {
  const delta = (given: object): string =>
    frame("content_block_delta", { type: "content_block_delta", index, delta: given });
  const [empty, deltas]: [object, string[]] =
    block.type === "text"
      ? [{ type: "text", text: "" }, [delta({ type: "text_delta", text: block.text })]]
      : block.type === "tool_use"
        ? [{ ...block, input: {} }, [delta({ type: "input_json_delta", partial_json: JSON.stringify(block.input) })]]
        : block.type === "thinking"
          ? [
              { type: "thinking", thinking: "", signature: "" },
              [
                delta({ type: "thinking_delta", thinking: block.thinking }),
                delta({ type: "signature_delta", signature: block.signature }),
              ],
            ]
          : [block, []];
  return [
    frame("content_block_start", { type: "content_block_start", index, content_block: empty }),
    ...deltas,
    frame("content_block_stop", { type: "content_block_stop", index }),
  ];
}

function stopOf({ response }: Answer): string {
  if (response.status === "incomplete") return "max_tokens";
  if (response.output.some(isFunctionCall)) return "tool_use";
  const isRefused = response.output.some(
    (item) => isMessage(item) && saidIn(item.content).some((part) => part.isRefusal),
  );
  return isRefused ? "refusal" : "end_turn";
}

/** Anthropic counts tokens read from its cache separately. */
function toUsage({ response }: Answer): { [count: string]: number } {
  const { input, output, cached } = usageOf(response);
  return {
    input_tokens: input - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: output,
  };
}

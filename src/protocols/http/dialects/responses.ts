// OpenAI's Responses API.
import { invalidOption } from "../../../core/errors.ts";
import { isObject, parseJson } from "../../../core/json.ts";
import {
  isFunctionCall,
  isMessage,
  type Content,
  type Item,
  type ModelRequest,
  type ToolSchema,
} from "../../../core/model.ts";
import {
  frame,
  isReasoning,
  objects,
  openaiError,
  request,
  saidIn,
  sealOf,
  text,
  toolSchema,
  unsealed,
  usageOf,
  type Answer,
  type Dialect,
  type Fields,
} from "./dialect.ts";

export const responses: Dialect = {
  models: "openai:",
  passed: ["text", "reasoning", "include", "truncation", "max_tool_calls"],
  read(body): ModelRequest {
    const { input, instructions } = body;
    if (body["previous_response_id"] || body["conversation"]) {
      throw invalidOption("`previous_response_id` and `conversation` are not supported; send the whole input");
    }
    if (typeof input !== "string" && !Array.isArray(input)) throw invalidOption("`input` must be a string or a list");
    return request({
      instructions: typeof instructions === "string" && instructions !== "" ? instructions : undefined,
      input:
        typeof input === "string"
          ? [{ type: "message", role: "user", content: input }]
          : objects(input, "input").map(toItem),
      tools: offeredTools(body["tools"]).map(({ schema }) => schema),
      tool_choice: toChoice(body["tool_choice"]),
      parallel_tool_calls: typeof body["parallel_tool_calls"] === "boolean" ? body["parallel_tool_calls"] : undefined,
    });
  },
  whole: (answer) => completed(answer, outputOf(answer)),
  frames(answer) {
    const output = outputOf(answer);
    const whole = completed(answer, output);
    const begun = { ...whole, status: "in_progress", output: [], usage: null, incomplete_details: null };
    let count = 0;
    const event = (type: string, fields: object): string => frame(type, { type, sequence_number: count++, ...fields });
    return [
      event("response.created", { response: begun }),
      event("response.in_progress", { response: begun }),
      ...output.flatMap((item, index) => itemFrames(item, index, event)),
      event(whole.status === "incomplete" ? "response.incomplete" : "response.completed", { response: whole }),
    ];
  },
  error: openaiError,
  errorFrame(body) {
    const { error } = body as { error: Fields };
    const { code, message, param } = error;
    const response = {
      id: "resp_failed",
      object: "response",
      created_at: Math.floor(Date.now() / 1000),
      status: "failed",
      error: { code, message },
      incomplete_details: null,
      output: [],
      usage: null,
    };
    // The official clients throw at the first event. Codex reads only the second.
    return (
      frame("error", { type: "error", sequence_number: 0, code, message, param, error }) +
      frame("response.failed", { type: "response.failed", sequence_number: 1, response })
    );
  },
  keepAlive: ": the model is answering\n\n",
};

/** A tool as the model sees it, and as the harness knows it. */
interface OfferedTool {
  schema: ToolSchema;
  name: string;
  /** The tool's group. Codex groups the tools of each MCP server. */
  namespace?: string;
  /** A tool whose argument is one string. */
  isCustom?: true;
}

/** Returns the tools that the harness runs. Tools that OpenAI's servers run are left out. */
function offeredTools(given: unknown, namespace?: string): OfferedTool[] {
  return objects(given, "tools").flatMap((tool, at): OfferedTool[] => {
    const place = `tools[${at}]`;
    if (tool["type"] === "namespace") return offeredTools(tool["tools"], text(tool["name"], `${place}.name`));
    const isCustom = tool["type"] === "custom";
    if (tool["type"] !== "function" && !isCustom) return [];
    const schema = toolSchema(tool["name"], tool["description"], isCustom ? textInput : tool["parameters"], place);
    const { name } = schema;
    schema.name = joined(namespace, name);
    return [{ schema, name, ...(namespace !== undefined && { namespace }), ...(isCustom && { isCustom }) }];
  });
}

const textInput = { type: "object", properties: { input: { type: "string" } }, required: ["input"] };

const joined = (namespace: unknown, name: string): string =>
  typeof namespace === "string" && namespace !== "" ? `${namespace}__${name}` : name;

function toItem(item: Fields, at: number): Item {
  const { type = "message", namespace } = item;
  const place = `input[${at}]`;
  switch (type) {
    case "function_call":
    case "custom_tool_call": {
      const given = type === "function_call" ? text(item["arguments"], `${place}.arguments`) : undefined;
      return {
        type: "function_call",
        call_id: text(item["call_id"], `${place}.call_id`),
        name: joined(namespace, text(item["name"], `${place}.name`)),
        arguments: given ?? JSON.stringify({ input: text(item["input"], `${place}.input`) }),
      };
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return {
        type: "function_call_output",
        call_id: text(item["call_id"], `${place}.call_id`),
        output: outputIn(item["output"]),
      };
    case "reasoning":
      return {
        type,
        summary: objects(item["summary"], `${place}.summary`) as unknown as Content[],
        ...unsealed(item["encrypted_content"], "encrypted_content"),
      };
    case "item_reference":
      throw invalidOption(`\`${place}\` refers to a stored item; send the whole item`);
    default:
      return { ...item, type: text(type, `${place}.type`) };
  }
}

const outputIn = (output: unknown): string | Content[] =>
  typeof output === "string" || Array.isArray(output) ? (output as string | Content[]) : JSON.stringify(output ?? "");

function toChoice(choice: unknown): ModelRequest["tool_choice"] {
  if (choice === "auto" || choice === "none" || choice === "required") return choice;
  const { type, name } = Object(choice) as Fields;
  return type === "function" && typeof name === "string" ? { type, name } : undefined;
}

type OutputItem = Fields & { type: string; id: string };

/** Returns the answer's items as the API defines them. Other fields, such as token ids, are for the log only. */
function outputOf({ id, response, body }: Answer): OutputItem[] {
  const tools = new Map(offeredTools(body["tools"]).map((tool) => [tool.schema.name, tool]));
  const status = "completed";
  return response.output.flatMap((item, at): OutputItem[] => {
    if (isMessage(item)) {
      const parts = saidIn(item.content).map(({ text, isRefusal }) =>
        isRefusal ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] },
      );
      return [{ id: `msg_${id}_${at}`, type: "message", role: "assistant", status, content: parts }];
    }
    if (isFunctionCall(item)) {
      const { call_id, arguments: given } = item;
      const { name = item.name, namespace, isCustom } = tools.get(item.name) ?? {};
      if (isCustom) {
        return [{ id: `ctc_${id}_${at}`, type: "custom_tool_call", call_id, name, input: textArgument(given), status }];
      }
      const grouped = namespace === undefined ? {} : { namespace };
      return [{ id: `fc_${id}_${at}`, type: "function_call", call_id, name, arguments: given, status, ...grouped }];
    }
    if (!isReasoning(item)) return [];
    return [{ id: `rs_${id}_${at}`, type: "reasoning", summary: item.summary, encrypted_content: sealOf(item) }];
  });
}

/** Returns the string that a custom tool gets as its argument. */
function textArgument(given: string): string {
  const parsed = parseJson(given);
  const { input } = isObject(parsed) ? parsed : {};
  return typeof input === "string" ? input : given;
}

function completed(answer: Answer, output: OutputItem[]) {
  const { id, created, response, body } = answer;
  const { input, output: written, cached, thought } = usageOf(response);
  return {
    id: `resp_${id}`,
    object: "response",
    created_at: created,
    status: response.status,
    error: null,
    incomplete_details: response.status === "incomplete" ? (response["incomplete_details"] ?? null) : null,
    instructions: null,
    metadata: {},
    model: typeof body["model"] === "string" ? body["model"] : (response.model ?? "model"),
    output,
    parallel_tool_calls: body["parallel_tool_calls"] !== false,
    previous_response_id: null,
    temperature: null,
    top_p: null,
    tool_choice: "auto",
    tools: [],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: written,
      output_tokens_details: { reasoning_tokens: thought },
      total_tokens: input + written,
    },
  };
}

type Emit = (type: string, fields: object) => string;

/** Returns the events of one whole item. */
export function itemFrames(item: OutputItem, output_index: number, event: Emit): string[] {
  const about = { item_id: item.id, output_index };
  const added = (empty: object): string =>
    event("response.output_item.added", { output_index, item: { ...item, ...empty, status: "in_progress" } });
  const begun: string[] = [];
  if (item.type === "message") {
    begun.push(added({ content: [] }));
    for (const [content_index, part] of (item["content"] as Fields[]).entries()) {
      const place = { ...about, content_index };
      const [kind, field] = part["type"] === "refusal" ? ["refusal", "refusal"] : ["output_text", "text"];
      begun.push(
        event("response.content_part.added", { ...place, part: { ...part, [field as string]: "" } }),
        event(`response.${kind}.delta`, { ...place, delta: part[field as string], logprobs: [] }),
        event(`response.${kind}.done`, { ...place, [field as string]: part[field as string], logprobs: [] }),
        event("response.content_part.done", { ...place, part }),
      );
    }
  } else if (item.type === "function_call") {
    const { arguments: given, name } = item;
    begun.push(
      added({ arguments: "" }),
      event("response.function_call_arguments.delta", { ...about, delta: given }),
      event("response.function_call_arguments.done", { ...about, name, arguments: given }),
    );
  } else if (item.type === "custom_tool_call") {
    const { input } = item;
    begun.push(
      added({ input: "" }),
      event("response.custom_tool_call_input.delta", { ...about, delta: input }),
      event("response.custom_tool_call_input.done", { ...about, input }),
    );
  } else begun.push(event("response.output_item.added", { output_index, item }));
  return [...begun, event("response.output_item.done", { output_index, item })];
}

// Converts an answer from the Chat Completions API to items.
import { isObject, setOwn } from "../../core/json.ts";
import type { Content, Item, ModelResponse, Usage } from "../../core/model.ts";
import type { CallIds } from "../wire/call-ids.ts";
import { listIn, stringIn } from "../wire/expect.ts";
import { broken, complaintIn, complaintFault } from "../wire/fault.ts";
import { countIn, objectsIn, present, textIn, without, type Fields } from "../wire/fields.ts";
import { reasoningField, reasoningFields } from "./messages.ts";

/** Converts an answer. Calls `callIds` with the id of every call, in order. */
export function answerIn(body: Fields, callIds: CallIds): ModelResponse {
  const [choice, ...others] = objectsIn(body["choices"]);
  // A proxy may report a failure of the server behind it with status 200, or as a choice.
  const complaint = hasError(body) ? complaintIn(body) : choice && hasError(choice) ? complaintIn(choice) : undefined;
  if (complaint) throw complaintFault(complaint);
  if (!choice || !isObject(choice["message"])) throw broken("a completion without a message in its first choice");

  const { message, finish_reason: finish } = choice;
  const output = toItems(message as Fields, callIds);
  const carrier = output.find(({ type }) => type === "message" || type === "function_call") ?? output.at(-1);
  carry(carrier as Fields, message as Fields, messageFields, "message");
  carry(carrier as Fields, choice, choiceFields, "choice");
  // The prompt's tokens are stored next to the sampled tokens, because the next request continues both.
  const { prompt_token_ids: prompt } = body;
  const isCarried = Array.isArray(prompt) && (carrier as Fields)["prompt_token_ids"] === undefined;
  if (isCarried) setOwn(carrier as Fields, "prompt_token_ids", prompt);
  const usage = usageIn(body["usage"]);
  return Object.assign(
    without(body, "choices", "usage", "object", ...(isCarried ? ["prompt_token_ids"] : [])),
    others.length > 0 ? { choices: others } : undefined,
    textIn(finish) ? { finish_reason: finish } : undefined,
    { output },
    toStatus(finish),
    usage ? { usage } : undefined,
  );
}

const hasError = ({ error }: Fields): boolean => isObject(error) || textIn(error) !== undefined;

// Fields that are converted, and therefore not copied.
const messageFields = ["role", "content", "refusal", "tool_calls", ...reasoningFields];
const choiceFields = ["message", "index", "finish_reason"];
const callFields = ["id", "type", "index", "function"];
const functionFields = ["name", "arguments"];

function toItems(message: Fields, callIds: CallIds): Item[] {
  const field = reasoningFields.find((name) => textIn(message[name]) !== undefined);
  const reasoning: Item[] = field
    ? [
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: message[field] as string }],
          [reasoningField]: field,
        },
      ]
    : [];
  const calls = listIn(message["tool_calls"], "`tool_calls`").map((call) => toCall(call, callIds));
  const content = toContent(message);
  // An empty answer becomes a message with an empty text, so that every answer has an item.
  const isSilent = content.length === 0 && calls.length === 0;
  const said: Content[] = isSilent ? [{ type: "output_text", text: "" }] : content;
  const messages: Item[] = said.length > 0 ? [{ type: "message", role: "assistant", content: said }] : [];
  return [...reasoning, ...messages, ...calls];
}

function toContent({ content, refusal }: Fields): Content[] {
  const isText = typeof content === "string";
  const text: Content[] = isText && content !== "" ? [{ type: "output_text", text: content }] : [];
  const parts = isText ? text : listIn(content, "`content`").map(toPart);
  return stringIn(refusal, "a refusal") ? [...parts, { type: "refusal", refusal }] : parts;
}

function toPart(part: Fields): Content {
  stringIn(part["text"], "a part of `content`");
  return part["type"] === "text" ? { ...part, type: "output_text" } : { type: "output_text", ...part };
}

function toCall(call: Fields, callIds: CallIds): Item {
  const { function: called } = call;
  if (!isObject(called) || !textIn(called["name"])) throw broken("a tool call without a function name");
  const item = {
    type: "function_call",
    call_id: callIds(call["id"]),
    name: called["name"],
    arguments: toArguments(called),
  };
  carry(item, called, functionFields, "function");
  carry(item, call, callFields, "call");
  return item;
}

/** Returns the arguments as text. Some servers send an object, or nothing for a call without arguments. */
function toArguments({ arguments: given }: Fields): string {
  if (isObject(given)) return JSON.stringify(given);
  const text = stringIn(given, "`arguments`") ?? "";
  return text.trim() === "" ? "{}" : text;
}

/** Copies fields that the server added to an item, with a prefix if the item has a field of that name. */
function carry(item: Fields, given: Fields, own: string[], from: string): void {
  for (const name of Object.keys(given)) {
    const value = given[name];
    // Servers set unused fields to null.
    if (value !== null && !own.includes(name))
      setOwn(item, Object.hasOwn(item, name) ? `${from}_${name}` : name, value);
  }
}

function toStatus(finish: unknown): Pick<ModelResponse, "status"> & Fields {
  const reason = finish === "length" ? "max_output_tokens" : finish === "content_filter" ? finish : undefined;
  return reason ? { status: "incomplete", incomplete_details: { reason } } : { status: "completed" };
}

function usageIn(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined;
  const { prompt_tokens: input, completion_tokens: output, total_tokens: total, ...rest } = present(given);
  const { prompt_tokens_details: inputDetails, completion_tokens_details: outputDetails, ...added } = rest;
  return {
    ...added,
    input_tokens: countIn(input),
    output_tokens: countIn(output),
    total_tokens: countIn(total) || countIn(input) + countIn(output),
    ...(inputDetails ? { input_tokens_details: inputDetails } : {}),
    ...(outputDetails ? { output_tokens_details: outputDetails } : {}),
  };
}

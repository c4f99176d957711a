// An answer of the Chat Completions API as items.
import { setOwn } from "../../core/json.ts";
import type { Content, Item, ModelResponse, Usage } from "../../core/model.ts";
import type { CallIds } from "../wire/call-ids.ts";
import { broken, complaintIn, faultOfComplaint } from "../wire/fault.ts";
import { countIn, isFields, listOf, present, textIn, without, type Fields } from "../wire/fields.ts";
import { reasoningField, reasoningFields } from "./messages.ts";

/** `callIds` is given the id of every call, in order. */
export function answerIn(body: Fields, callIds: CallIds): ModelResponse {
  const [choice, ...others] = listOf(body["choices"]);
  // Proxies send the failure of the server behind them with a status of 200, or as a choice.
  const complaint = hasError(body) ? complaintIn(body) : choice && hasError(choice) ? complaintIn(choice) : undefined;
  if (complaint) throw faultOfComplaint(complaint);
  if (!choice || !isFields(choice["message"])) throw broken("a completion without a choice that has a message");

  const { message, finish_reason: finish } = choice;
  const output = itemsOf(message as Fields, callIds);
  const carrier = output.find(({ type }) => type === "message" || type === "function_call") ?? output.at(-1);
  carry(carrier as Fields, without(message as Fields, ...ownOfMessage), "message");
  carry(carrier as Fields, without(choice, "message", "index", "finish_reason"), "choice");
  const usage = usageIn(body["usage"]);
  return {
    ...without(body, "choices", "usage", "object"),
    ...(others.length > 0 ? { choices: others } : {}),
    ...(textIn(finish) ? { finish_reason: finish } : {}),
    output,
    ...statusOf(finish),
    ...(usage ? { usage } : {}),
  };
}

const hasError = ({ error }: Fields): boolean => isFields(error) || textIn(error) !== undefined;

const ownOfMessage = ["role", "content", "refusal", "tool_calls", ...reasoningFields];

function itemsOf(message: Fields, callIds: CallIds): Item[] {
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
  const calls = listOf(message["tool_calls"]).map((call) => callOf(call, callIds));
  const content = contentOf(message);
  // An answer that says nothing is a message of no text: nobody has to ask whether there is one.
  const isSilent = content.length === 0 && calls.length === 0;
  const said: Content[] = isSilent ? [{ type: "output_text", text: "" }] : content;
  const messages: Item[] = said.length > 0 ? [{ type: "message", role: "assistant", content: said }] : [];
  return [...reasoning, ...messages, ...calls];
}

function contentOf({ content, refusal }: Fields): Content[] {
  const parts = textIn(content) ? [{ type: "output_text", text: content as string }] : listOf(content).map(partOf);
  return textIn(refusal) ? [...parts, { type: "refusal", refusal }] : parts;
}

const partOf = (part: Fields): Content =>
  part["type"] === "text" ? { ...part, type: "output_text" } : { type: "output_text", ...part };

function callOf(call: Fields, callIds: CallIds): Item {
  const { function: called } = call;
  if (!isFields(called) || !textIn(called["name"])) throw broken("a tool call without a function's name");
  const item = {
    type: "function_call",
    call_id: callIds(call["id"]),
    name: called["name"],
    arguments: argumentsOf(called),
  };
  carry(item, without(called, "name", "arguments"), "function");
  carry(item, without(call, "id", "type", "index", "function"), "call");
  return item;
}

/** Some servers send an object, or nothing where there are no arguments. */
function argumentsOf({ arguments: given }: Fields): string {
  if (typeof given === "string") return given.trim() === "" ? "{}" : given;
  return JSON.stringify(given ?? {});
}

/** Puts on an item what its server added, under another name where the item has a field of that name. */
function carry(item: Fields, added: Fields, from: string): void {
  for (const [name, value] of Object.entries(added)) {
    // Null is what servers write into the fields that they do not use.
    if (value !== null) setOwn(item, Object.hasOwn(item, name) ? `${from}_${name}` : name, value);
  }
}

function statusOf(finish: unknown): Pick<ModelResponse, "status"> & Fields {
  const reason = finish === "length" ? "max_output_tokens" : finish === "content_filter" ? finish : undefined;
  return reason ? { status: "incomplete", incomplete_details: { reason } } : { status: "completed" };
}

function usageIn(given: unknown): Usage | undefined {
  if (!isFields(given)) return undefined;
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

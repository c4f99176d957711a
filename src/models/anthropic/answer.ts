// Converts an answer from Anthropic's API to items.
import { isObject } from "../../core/json.ts";
import type { Content, Item, Message, ModelResponse, Usage } from "../../core/model.ts";
import type { CallIds } from "../wire/call-ids.ts";
import { listIn, stringIn } from "../wire/expect.ts";
import { broken, complaintIn, complaintFault } from "../wire/fault.ts";
import { countIn, present, textIn, without, type Fields } from "../wire/fields.ts";
import { otherPrefix } from "./messages.ts";

/** Converts an answer. Calls `callIds` with the id of every call, in order. */
export function answerIn(body: Fields, callIds: CallIds): ModelResponse {
  const complaint = body["type"] === "error" ? complaintIn(body) : undefined;
  if (complaint) throw complaintFault(complaint);
  if (!Array.isArray(body["content"])) throw broken("a message without `content`");
  const usage = usageIn(body["usage"]);
  const refusal = body["stop_reason"] === "refusal" ? [toRefusal(body["stop_details"])] : [];
  return Object.assign(
    without(body, "content", "usage", "type", "role"),
    { output: toItems([...listIn(body["content"], "`content`"), ...refusal], callIds) },
    toStatus(body["stop_reason"]),
    usage ? { usage } : undefined,
  );
}

function toItems(blocks: Fields[], callIds: CallIds): Item[] {
  const items: Item[] = [];
  for (const block of blocks) {
    const part = toPart(block);
    const last = items.at(-1);
    if (!part) items.push(toItem(block, callIds));
    // Citations split one message into several text blocks, which are joined again.
    else if (last && last.type === "message") ((last as Message).content as Content[]).push(part);
    else items.push({ type: "message", role: "assistant", content: [part] });
  }
  // An empty answer becomes a message with an empty text, so that every answer has an item.
  if (items.length === 0)
    items.push({ type: "message", role: "assistant", content: [{ type: "output_text", text: "" }] });
  return items;
}

function toPart(block: Fields): Content | undefined {
  if (block["type"] === "refusal") return { ...block, type: "refusal" };
  if (block["type"] !== "text") return undefined;
  stringIn(block["text"], "a text block");
  return { ...present(block), type: "output_text" };
}

function toItem(block: Fields, callIds: CallIds): Item {
  const { type, ...rest } = block;
  switch (type) {
    case "thinking":
      return {
        ...without(rest, "thinking"),
        type: "reasoning",
        summary: [{ type: "summary_text", text: String(rest["thinking"] ?? "") }],
      };
    case "redacted_thinking":
      return { ...rest, type: "reasoning", summary: [] };
    case "tool_use": {
      const { id, name, input, ...added } = rest;
      if (!textIn(name)) throw broken("a tool_use without a name");
      // A string is a streamed input that was cut off or is not JSON.
      const text = isObject(input) ? JSON.stringify(input) : (stringIn(input, "`input`") ?? "{}");
      return Object.assign(added, { type: "function_call", call_id: callIds(id), name, arguments: text });
    }
    default:
      if (typeof type !== "string") throw broken("a content block without a type");
      return { type: `${otherPrefix}${type}`, block };
  }
}

function toRefusal(details: unknown): Fields {
  const explanation = isObject(details) ? textIn(details["explanation"]) : undefined;
  return { type: "refusal", refusal: explanation ?? "The model's server refused to complete the answer." };
}

function toStatus(stop: unknown): Pick<ModelResponse, "status"> & Fields {
  if (stop === "max_tokens") return { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
  const isCut = stop === "model_context_window_exceeded" || stop === "pause_turn";
  return isCut ? { status: "incomplete", incomplete_details: { reason: stop } } : { status: "completed" };
}

/** Adds up the input tokens, because the API counts tokens read from and written to its cache separately. */
function usageIn(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined;
  const { input_tokens: fresh, output_tokens: written, ...added } = present(given);
  const cached = countIn(added["cache_read_input_tokens"]);
  const stored = countIn(added["cache_creation_input_tokens"]);
  const input = countIn(fresh) + cached + stored;
  return Object.assign(added, {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: stored },
    output_tokens: countIn(written),
    total_tokens: input + countIn(written),
  });
}

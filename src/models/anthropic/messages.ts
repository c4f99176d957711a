// Converts items to messages for Anthropic's API: content blocks, in alternating user and assistant turns.
import { isObject, parseJson } from "../../core/json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Item } from "../../core/model.ts";
import type { FunctionCallOutput, ModelRequest, Reasoning } from "../../core/model.ts";
import type { Fields } from "../wire/fields.ts";

export interface AnthropicMessage {
  role: "user" | "assistant";
  content: Block[];
}

export type Block =
  | TextBlock
  | ImageBlock
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id: string; name: string; input: Fields }
  | { type: "tool_result"; tool_use_id: string; content: string | (TextBlock | ImageBlock)[] };

interface TextBlock {
  type: "text";
  text: string;
}

interface ImageBlock {
  type: "image";
  source:
    | { type: "base64"; media_type: "image/jpeg" | "image/png" | "image/gif" | "image/webp"; data: string }
    | { type: "url"; url: string };
}

/** Type prefix for an item that holds a block of an unknown kind. */
export const otherPrefix = "anthropic.";

export function toMessages({ instructions, input }: Pick<ModelRequest, "instructions" | "input">): {
  system?: string;
  messages: AnthropicMessage[];
} {
  // Leading system messages become `system`. Later system messages stay in place, in the user's turn.
  const start = input.findIndex((item) => !isSystem(item));
  const leading = input.slice(0, start < 0 ? input.length : start).flatMap((item) => (isMessage(item) ? item : []));
  const system = [instructions ?? "", ...leading.map(({ content }) => toText(content))].filter(Boolean).join("\n\n");

  const messages: AnthropicMessage[] = [];
  for (const item of input.slice(leading.length)) {
    const { role, blocks } = toTurn(item);
    if (blocks.length === 0) continue;
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else messages.push({ role, content: blocks });
  }
  for (const message of messages) message.content = resultsFirst(message.content);
  return system === "" ? { messages } : { system, messages };
}

const isSystem = (item: Item): boolean => isMessage(item) && (item.role === "system" || item.role === "developer");

/** Moves a turn's tool results before its other blocks, as the API requires. */
function resultsFirst(blocks: Block[]): Block[] {
  const isResult = ({ type }: Block): boolean => type === "tool_result";
  return [...blocks.filter(isResult), ...blocks.filter((block) => !isResult(block))];
}

function toTurn(item: Item): { role: "user" | "assistant"; blocks: Block[] } {
  if (isMessage(item))
    return { role: item.role === "assistant" ? "assistant" : "user", blocks: toBlocks(item.content) };
  if (isFunctionCall(item)) {
    const { call_id: id, name, arguments: text } = item;
    return { role: "assistant", blocks: [{ type: "tool_use", id, name, input: parseInput(text) }] };
  }
  if (item.type === "function_call_output") return { role: "user", blocks: [toResult(item as FunctionCallOutput)] };
  if (item.type === "reasoning") return { role: "assistant", blocks: toThinking(item as Reasoning) };
  const { type, block } = item as Fields & Item;
  // An item from another server, which Anthropic's API cannot read, is dropped.
  if (!type.startsWith(otherPrefix) || !isObject(block)) return { role: "assistant", blocks: [] };
  return { role: "assistant", blocks: [block as Block] };
}

/** Parses a call's arguments. The API accepts only objects, and documents INVALID_JSON for invalid arguments. */
function parseInput(text: string): Fields {
  const input = parseJson(text);
  return isObject(input) ? input : { INVALID_JSON: text };
}

function toResult({ call_id: id, output }: FunctionCallOutput): Block {
  const content = typeof output === "string" ? output : (toBlocks(output) as (TextBlock | ImageBlock)[]);
  return { type: "tool_result", tool_use_id: id, content };
}

/** Returns a reasoning item as a block. The API accepts only blocks that it signed or encrypted. */
function toThinking({ summary, signature, data }: Reasoning): Block[] {
  if (typeof data === "string") return [{ type: "redacted_thinking", data }];
  return typeof signature === "string" ? [{ type: "thinking", thinking: toText(summary), signature }] : [];
}

function toBlocks(content: string | Content[]): Block[] {
  if (typeof content === "string") return textBlock(content);
  return content.flatMap(toBlock);
}

/** Returns no block for blank text, which the API refuses. */
function textBlock(text: string): TextBlock[] {
  return text.trim() === "" ? [] : [{ type: "text", text }];
}

function toBlock(part: Content): Block[] {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return textBlock(part.text ?? "");
    case "refusal":
      return textBlock(String(part["refusal"] ?? ""));
    case "input_image":
      return typeof part["image_url"] === "string" ? [toImage(part["image_url"])] : [];
    default:
      // A different kind of block that the API supports, such as a document.
      return [part as unknown as Block];
  }
}

function toImage(url: string): ImageBlock {
  const [, type, data] = /^data:(image\/(?:jpeg|png|gif|webp));base64,(.*)$/s.exec(url) ?? [];
  if (data === undefined) return { type: "image", source: { type: "url", url } };
  return { type: "image", source: { type: "base64", media_type: type as "image/png", data } };
}

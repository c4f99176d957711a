// Items as messages of Anthropic's API: content blocks, in turns of user and assistant.
import { isFunctionCall, isMessage, textOf, type Content, type Item } from "../../core/model.ts";
import type { FunctionCallOutput, ModelRequest, Reasoning } from "../../core/model.ts";
import { isFields, parsed, type Fields } from "../wire/fields.ts";

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

/** An item that holds a block of a kind that is not known here has this before the name of its kind. */
export const otherPrefix = "anthropic.";

export function messagesOf({ instructions, input }: Pick<ModelRequest, "instructions" | "input">): {
  system?: string;
  messages: AnthropicMessage[];
} {
  // What the system says at the start has a place of its own; later it is said in the user's turn, where it stood.
  const start = input.findIndex((item) => !isSystem(item));
  const leading = input.slice(0, start < 0 ? input.length : start).flatMap((item) => (isMessage(item) ? item : []));
  const system = [instructions ?? "", ...leading.map(({ content }) => textOf(content))].filter(Boolean).join("\n\n");

  const messages: AnthropicMessage[] = [];
  for (const item of input.slice(leading.length)) {
    const { role, blocks } = turnOf(item);
    if (blocks.length === 0) continue;
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else messages.push({ role, content: blocks });
  }
  for (const message of messages) message.content = resultsFirst(message.content);
  return system === "" ? { messages } : { system, messages };
}

const isSystem = (item: Item): boolean => isMessage(item) && (item.role === "system" || item.role === "developer");

/** The API wants all results of a turn before anything else that the user says. */
function resultsFirst(blocks: Block[]): Block[] {
  const isResult = ({ type }: Block): boolean => type === "tool_result";
  return [...blocks.filter(isResult), ...blocks.filter((block) => !isResult(block))];
}

function turnOf(item: Item): { role: "user" | "assistant"; blocks: Block[] } {
  if (isMessage(item))
    return { role: item.role === "assistant" ? "assistant" : "user", blocks: blocksOf(item.content) };
  if (isFunctionCall(item)) {
    const { call_id: id, name, arguments: text } = item;
    return { role: "assistant", blocks: [{ type: "tool_use", id, name, input: inputOf(text) }] };
  }
  if (item.type === "function_call_output") return { role: "user", blocks: [resultOf(item as FunctionCallOutput)] };
  if (item.type === "reasoning") return { role: "assistant", blocks: thinkingOf(item as Reasoning) };
  const { type, block } = item as Fields & Item;
  // Of another server: this one could not read it.
  if (!type.startsWith(otherPrefix) || !isFields(block)) return { role: "assistant", blocks: [] };
  return { role: "assistant", blocks: [block as Block] };
}

/** The API takes only objects. For what a model wrote in their place it documents this key. */
function inputOf(text: string): Fields {
  const input = parsed(text);
  return isFields(input) ? input : { INVALID_JSON: text };
}

function resultOf({ call_id: id, output }: FunctionCallOutput): Block {
  const content = typeof output === "string" ? output : (blocksOf(output) as (TextBlock | ImageBlock)[]);
  return { type: "tool_result", tool_use_id: id, content };
}

/** Only what this API signed, or encrypted, is taken back by it. */
function thinkingOf({ summary, signature, data }: Reasoning): Block[] {
  if (typeof data === "string") return [{ type: "redacted_thinking", data }];
  return typeof signature === "string" ? [{ type: "thinking", thinking: textOf(summary), signature }] : [];
}

function blocksOf(content: string | Content[]): Block[] {
  if (typeof content === "string") return textBlock(content);
  return content.flatMap(blockOf);
}

/** The API refuses text in which there is nothing. */
function textBlock(text: string): TextBlock[] {
  return text.trim() === "" ? [] : [{ type: "text", text }];
}

function blockOf(part: Content): Block[] {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return textBlock(part.text ?? "");
    case "refusal":
      return textBlock(String(part["refusal"] ?? ""));
    case "input_image":
      return typeof part["image_url"] === "string" ? [imageOf(part["image_url"])] : [];
    default:
      // A block of the API's own, such as a document.
      return [part as unknown as Block];
  }
}

function imageOf(url: string): ImageBlock {
  const [, type, data] = /^data:(image\/(?:jpeg|png|gif|webp));base64,(.*)$/s.exec(url) ?? [];
  if (data === undefined) return { type: "image", source: { type: "url", url } };
  return { type: "image", source: { type: "base64", media_type: type as "image/png", data } };
}

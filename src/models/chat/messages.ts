// Converts items to messages for the Chat Completions API.
import { isFunctionCall, isMessage, toText, type Content, type Item, type Message } from "../../core/model.ts";
import type { FunctionCall, FunctionCallOutput, ModelRequest, Reasoning } from "../../core/model.ts";

export type ChatMessage =
  | { role: "system" | "developer"; content: string }
  | { role: "user"; content: string | ChatPart[] }
  | AssistantMessage
  | { role: "tool"; tool_call_id: string; content: string };

export interface AssistantMessage {
  role: "assistant";
  content?: string | null;
  refusal?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  /** Servers that send reasoning require it back. Some servers name the field `reasoning`. */
  reasoning_content?: string;
  reasoning?: string;
}

export type ChatPart =
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string; detail?: "auto" | "low" | "high" } }
  | { type: "file"; file: { file_data?: string; file_id?: string; filename?: string } };

/** The fields in which servers send reasoning, and the field of an item that stores which of them was used. */
export const reasoningFields = ["reasoning_content", "reasoning"] as const;
export const reasoningField = "chat_field";

/** Converts items. `developer` is the role that the server accepts for a developer's messages. */
export function toChatMessages(
  { instructions, input }: Pick<ModelRequest, "instructions" | "input">,
  developer: "developer" | "system",
): ChatMessage[] {
  const messages: ChatMessage[] = instructions ? [{ role: "system", content: instructions }] : [];
  /** The current assistant message. The assistant's next item may become part of it. */
  let open: AssistantMessage | undefined;
  const begin = (): AssistantMessage => {
    const message: AssistantMessage = { role: "assistant" };
    messages.push(message);
    return message;
  };
  const close = (message: ChatMessage): void => {
    messages.push(message);
    open = undefined;
  };
  for (const item of input) {
    if (isFunctionCall(item)) addCall((open ??= begin()), item);
    else if (isOutput(item)) {
      close({ role: "tool", tool_call_id: item.call_id, content: outputText(item.output) });
    } else if (isMessage(item) && item.role !== "assistant") close(said(item, developer));
    else if (isMessage(item)) {
      // No message may come between calls and their outputs, so a text between them joins the message with the calls.
      if (open?.tool_calls === undefined && (open?.content ?? open?.refusal) !== undefined) open = undefined;
      say((open ??= begin()), item);
    } else if (isReasoning(item)) {
      const field = reasoningFields.find((name) => item[reasoningField] === name);
      if (field === undefined) continue;
      if (open?.tool_calls === undefined) open = undefined;
      open ??= begin();
      open[field] = (open[field] ?? "") + toText(item.summary);
    }
  }
  for (const message of messages) {
    // A message with calls or a refusal may have no content. In that case it needs an explicit null.
    if (message.role === "assistant" && message.content === undefined) message.content = null;
  }
  return messages;
}

const isOutput = (item: Item): item is FunctionCallOutput => item.type === "function_call_output";
const isReasoning = (item: Item): item is Reasoning => item.type === "reasoning";

function addCall(message: AssistantMessage, { call_id: id, name, arguments: text }: FunctionCall): void {
  (message.tool_calls ??= []).push({ id, type: "function", function: { name, arguments: text } });
}

function say(message: AssistantMessage, { content }: Message): void {
  const parts = typeof content === "string" ? [{ type: "output_text", text: content }] : content;
  const refusals = parts.flatMap((part) => (part.type === "refusal" ? String(part["refusal"] ?? "") : []));
  const text = toText(parts);
  if (refusals.length > 0) message.refusal = (message.refusal ?? "") + refusals.join("");
  if (text !== "" || refusals.length === 0) message.content = (message.content ?? "") + text;
}

function said({ role, content }: Message, developer: "developer" | "system"): ChatMessage {
  if (role === "user") return { role, content: toParts(content) };
  return { role: role === "developer" ? developer : "system", content: toText(content) };
}

/** Returns a string if there is only text, because not every server accepts a list. */
function toParts(content: string | Content[]): string | ChatPart[] {
  if (typeof content === "string") return content;
  return content.every(isText) ? toText(content) : content.map(toPart);
}

const isText = ({ type }: Content): boolean => type === "input_text" || type === "output_text" || type === "text";

function toPart(part: Content): ChatPart {
  if (isText(part)) return { type: "text", text: part.text ?? "" };
  const { type, ...rest } = part;
  if (type === "input_image" && typeof rest["image_url"] === "string") {
    const { image_url: url, detail } = rest as { image_url: string; detail?: "auto" | "low" | "high" };
    return { type: "image_url", image_url: { url, ...(detail ? { detail } : {}) } };
  }
  if (type === "input_file") return { type: "file", file: rest as { file_id?: string } };
  // A kind specific to the server, such as audio or video.
  return part as unknown as ChatPart;
}

/** Returns a tool's output as text; parts other than text become JSON. */
function outputText(output: string | Content[]): string {
  if (typeof output === "string" || output.every(isText)) return toText(output);
  return JSON.stringify(output);
}

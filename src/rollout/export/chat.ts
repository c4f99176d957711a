// toChat(): converts a rollout to Chat Completions messages. Training tokens are put on the answers they belong to.
import { copyJson, toFields, type Json } from "../../core/json.ts";
import type { Content, Item } from "../../core/model.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { toChatMessages } from "../../models/chat/messages.ts";
import { readConversation } from "../conversation.ts";
import { tokenFields } from "../row-fields.ts";

export interface ChatRollout {
  prompt: Json[];
  completion: Json[];
  tools: Json[];
}

export function toChat(row: TaskRow): ChatRollout {
  const { instructions, input, output, tools } = readConversation(row);
  const prompt = toChatMessages({ instructions, input: input.map(withThoughts) }, "developer");
  return {
    prompt: asJson(prompt),
    completion: asJson(answersIn(output).flatMap(toAnswerMessages)),
    tools: tools.map(toChatTool),
  };
}

function toChatTool(tool: TaskRow): Json {
  const { type: _, ...definition } = tool;
  return { type: "function", function: definition };
}

/** Cuts a transcript into the model's answers and the items between them. */
function answersIn(output: Item[]): Item[][] {
  const pieces: Item[][] = [];
  let isAnswer = false;
  for (const item of output) {
    const current = pieces.at(-1);
    const isPart = item.type !== "function_call_output" && (item as { role?: string }).role !== "user";
    // Only one item per answer has tokens, so a second item with tokens starts the next answer.
    const isNext = isPart && hasTokens(item) && current?.some(hasTokens);
    if (current && isPart && isAnswer && !isNext) current.push(item);
    else pieces.push([item]);
    isAnswer = isPart;
  }
  return pieces;
}

function toAnswerMessages(items: Item[]): object[] {
  const messages = toChatMessages({ input: items.map(withThoughts) }, "developer");
  const tokens = collectTokens(items);
  return Object.keys(tokens).length === 0
    ? messages
    : messages.map((message, at) => (at === messages.length - 1 ? { ...message, ...tokens } : message));
}

const hasTokens = (item: Item): boolean => tokenFields.some((name) => item[name] !== undefined);

function collectTokens(items: Item[]): TaskRow {
  const tokens: TaskRow = {};
  for (const item of items) {
    for (const name of tokenFields) if (item[name] !== undefined) tokens[name] = item[name] as Json;
    const logprobs = contentLogprobs(item);
    if (logprobs.length > 0) tokens["logprobs"] ??= { content: logprobs };
  }
  return tokens;
}

/** Reads log probabilities from Responses API servers, which attach them to each text part. */
function contentLogprobs({ content }: Item): Json[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part) => {
    const { logprobs } = toFields(part as Json);
    return Array.isArray(logprobs) ? logprobs : [];
  });
}

/** Keeps reasoning as training data, however the server sent it. */
function withThoughts(item: Item): Item {
  if (item.type !== "reasoning") return item;
  const { chat_field: field = "reasoning_content", summary, content } = item;
  const parts = [summary, content].flatMap((list) => (Array.isArray(list) ? (list as Content[]) : []));
  return { ...item, type: "reasoning", summary: parts, chat_field: field };
}

const asJson = (messages: object[]): Json[] => copyJson(messages, "messages", "drop") as Json[];

// Streams a run as OpenAI's APIs do: pieces of text as they come, then the whole response.
import type { RunEvent } from "../../agent/invocation.ts";
import type { FunctionCall } from "../../core/model.ts";
import { frame, type Fields } from "../http/dialects/dialect.ts";
import { itemFrames } from "../http/dialects/responses.ts";
import { nameCall } from "./client-calls.ts";
import { clientCalls, textOf } from "./turn.ts";

/**
 * Writes the events of the Responses API. `id` is the response's id without its prefix. Events up to the number
 * `startingAfter` are left out. Each character of a text counts as one event, so that event numbers do not depend on
 * how a text was cut into pieces.
 */
export function createResponseStream(id: string, begun: object, startingAfter = -1) {
  let count = 0;
  let index = 0;
  let isOpen = false;
  /** The number of the first character of the message in progress. */
  let from = 0;
  const event = (type: string, fields: object): string =>
    count++ <= startingAfter ? "" : frame(type, { type, sequence_number: count - 1, ...fields });
  const item = (text: string, status: string): Fields => ({
    id: `msg_${id}_${index}`,
    type: "message",
    role: "assistant",
    status,
    content: status === "completed" ? [part(text)] : [],
  });
  const part = (text: string): object => ({ type: "output_text", text, annotations: [] });
  const place = (): object => ({ item_id: `msg_${id}_${index}`, output_index: index, content_index: 0 });

  function open(): string {
    if (isOpen) return "";
    isOpen = true;
    const added =
      event("response.output_item.added", { output_index: index, item: item("", "in_progress") }) +
      event("response.content_part.added", { ...place(), part: part("") });
    from = count;
    return added;
  }

  function delta(text: string): string {
    const rest = text.slice(Math.max(0, startingAfter + 1 - count));
    count += text.length;
    if (rest === "") return "";
    count--;
    return event("response.output_text.delta", { ...place(), delta: rest, logprobs: [] });
  }

  /** Ends the message in progress with its whole text. */
  function say(text: string): string {
    if (text === "") return "";
    const missing = isOpen ? "" : open() + delta(text);
    count = Math.max(count, from + text.length);
    const done =
      event("response.output_text.done", { ...place(), text, logprobs: [] }) +
      event("response.content_part.done", { ...place(), part: part(text) }) +
      event("response.output_item.done", { output_index: index, item: item(text, "completed") });
    isOpen = false;
    index++;
    return missing + done;
  }

  function call(made: FunctionCall): string {
    const { name, arguments: given } = made;
    const about = { type: "function_call", call_id: nameCall(id, made), name, arguments: given, status: "completed" };
    const whole = { id: `fc_${id}_${index}`, ...about };
    return itemFrames(whole, index++, event).join("");
  }

  return {
    begin: (): string =>
      event("response.created", { response: begun }) + event("response.in_progress", { response: begun }),
    add(given: RunEvent): string {
      if (given.type === "partial") return given.piece.type === "text" ? open() + delta(given.piece.text) : "";
      return say(textOf(given)) + clientCalls(given).map(call).join("");
    },
    end(response: { status: string }): string {
      const { status } = response;
      return event(`response.${status === "completed" || status === "failed" ? status : "incomplete"}`, { response });
    },
    error: (code: string, message: string): string => event("error", { code, message, param: null }),
  };
}
/** Writes the chunks of the Chat Completions API. `id` is the response's id, which is part of its calls' ids. */
export function createChatStream(id: string, head: object, isCounted: boolean) {
  let calls = 0;
  let isOpen = false;
  let isFirst = true;
  const chunk = (fields: object): string =>
    `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...fields })}\n\n`;
  const delta = (given: object, finish: string | null = null): string =>
    chunk({ choices: [{ index: 0, delta: given, finish_reason: finish, logprobs: null }] });
  const say = (text: string): string => {
    // A blank line separates the answers of one turn.
    const lead = isOpen || isFirst ? "" : "\n\n";
    [isOpen, isFirst] = [true, false];
    return delta({ content: lead + text });
  };
  const call = (made: FunctionCall): string => {
    const { name, arguments: given } = made;
    const about = { index: calls++, id: nameCall(id, made), type: "function", function: { name, arguments: given } };
    return delta({ tool_calls: [about] });
  };
  return {
    begin: (): string => delta({ role: "assistant", content: "" }),
    add(given: RunEvent): string {
      if (given.type === "partial") return given.piece.type === "text" ? say(given.piece.text) : "";
      const text = textOf(given);
      const sent = text === "" || isOpen ? "" : say(text);
      if (text !== "") isOpen = false;
      return sent + clientCalls(given).map(call).join("");
    },
    end: (finish: string, usage: unknown): string =>
      delta({}, finish) + (isCounted ? chunk({ choices: [], usage }) : "") + "data: [DONE]\n\n",
  };
}

// Reads a stream from Anthropic's API: passes on its pieces and assembles the complete message.
import { isObject, jsonOrText } from "../../core/json.ts";
import type { Piece } from "../../core/model.ts";
import type { CallIds } from "../wire/call-ids.ts";
import { stringIn } from "../wire/expect.ts";
import { broken } from "../wire/fault.ts";
import { growFields, present, without, type Fields } from "../wire/fields.ts";
import type { StreamReader } from "../wire/remote-model.ts";
import { answerIn } from "./answer.ts";

export function readEvents(callIds: CallIds, onPiece: (piece: Piece) => void): StreamReader {
  let message: Fields | undefined;
  const blocks = new Map<unknown, Fields>();
  /** The inputs of calls, which arrive as fragments of JSON. */
  const inputs = new Map<Fields, string[]>();

  function start(index: unknown, given: unknown): void {
    if (typeof index !== "number" || !isObject(given)) throw broken("a content block without an index");
    const block = given["type"] === "tool_use" ? { ...given, id: callIds(given["id"]) } : given;
    blocks.set(index, block);
    // Some servers send the first text with the start of a block.
    if (block["type"] === "text") hand("text", block["text"]);
    if (block["type"] === "thinking") hand("reasoning", block["thinking"]);
  }

  function take(index: unknown, delta: unknown): void {
    const block = blocks.get(index);
    if (!block || !isObject(delta)) throw broken("a delta for a content block that was not started");
    switch (delta["type"]) {
      case "input_json_delta":
        return takeInput(block, stringIn(delta["partial_json"], "`partial_json`") || undefined);
      case "citations_delta":
        return growFields(block, { citations: [delta["citation"]] }, "join");
      case "text_delta":
        hand("text", delta["text"]);
        break;
      case "thinking_delta":
        hand("reasoning", delta["thinking"]);
    }
    // Deltas of unknown kinds are also appended to strings and lists.
    growFields(block, present(without(delta, "type")), "join");
  }

  function hand(type: "text" | "reasoning", given: unknown): void {
    const text = stringIn(given, `\`${type}\``);
    if (text) onPiece({ type, text });
  }

  function takeInput(block: Fields, text: string | undefined): void {
    if (text === undefined) return;
    inputs.set(block, inputs.get(block) ?? []);
    inputs.get(block)?.push(text);
    const { type, id, name } = block;
    if (type === "tool_use") onPiece({ type: "arguments", call_id: String(id), name: String(name), text });
  }

  /** Passes on the arguments of a call without fragments. It has no arguments, or its start event had all of them. */
  function stop(block: Fields | undefined): void {
    if (block?.["type"] === "tool_use" && !inputs.has(block)) takeInput(block, JSON.stringify(block["input"] ?? {}));
  }

  function finished(block: Fields): Fields {
    const text = inputs.get(block)?.join("");
    if (text === undefined) return block;
    // A call keeps its text, because its pieces were parts of that text, and the text may be invalid JSON.
    return { ...block, input: block["type"] === "tool_use" ? text : jsonOrText(text) };
  }

  /** Adds the fields sent at the end of the message. The token counts in these fields are totals. */
  function amend(whole: Fields, { delta, usage, ...added }: Fields): void {
    Object.assign(whole, without(added, "type"), isObject(delta) ? delta : {});
    whole["usage"] = {
      ...(isObject(whole["usage"]) ? whole["usage"] : {}),
      ...(isObject(usage) ? present(usage) : {}),
    };
  }

  return {
    take(event) {
      switch (event["type"]) {
        case "message_start":
          if (!isObject(event["message"])) throw broken("a `message_start` event without a message");
          message = { ...event["message"] };
          return undefined;
        case "content_block_start":
          start(event["index"], event["content_block"]);
          return undefined;
        case "content_block_delta":
          take(event["index"], event["delta"]);
          return undefined;
        case "content_block_stop":
          stop(blocks.get(event["index"]));
          return undefined;
        case "message_delta":
          if (message) amend(message, event);
          return undefined;
        case "message_stop":
          if (!message) throw broken("a stream without a `message_start` event");
          return answerIn({ ...message, content: [...blocks.values()].map(finished) }, String);
        default:
          // "ping" and future kinds of events.
          return undefined;
      }
    },
    end: () => undefined,
  };
}

// Reads a stream from the Chat Completions API: passes on its pieces and assembles the complete answer.
import { isObject } from "../../core/json.ts";
import type { Piece } from "../../core/model.ts";
import type { CallIds } from "../wire/call-ids.ts";
import { listIn, stringIn } from "../wire/expect.ts";
import { broken } from "../wire/fault.ts";
import { growFields, objectsIn, present, textIn, without, type Fields } from "../wire/fields.ts";
import type { StreamReader } from "../wire/remote-model.ts";
import { answerIn } from "./answer.ts";
import { reasoningFields } from "./messages.ts";

/** An incomplete call. Its arguments are kept in parts, because there may be thousands. */
interface Call {
  index: unknown;
  /** The id that the server sent, if any. */
  given: string | undefined;
  id: string;
  name: string;
  arguments: string[];
  added: Fields;
  addedToFunction: Fields;
}

export function readChunks(callIds: CallIds, onPiece: (piece: Piece) => void): StreamReader {
  const completion: Fields = {};
  const choice: Fields = {};
  const message: Fields = {};
  const texts: Record<string, string[]> = {};
  const calls: Call[] = [];
  let isBegun = false;

  function takeDelta(delta: Fields): void {
    // Some servers send the same text under both names.
    const [field, other] = reasoningFields.filter((name) => textIn(delta[name]) !== undefined);
    if (field) takeText(field, delta[field], "reasoning");
    if (other) takeText(other, delta[other]);
    const { content } = delta;
    if (typeof content === "string") takeText("content", content, "text");
    else for (const { text } of listIn(content, "`content`")) takeText("content", text, "text");
    takeText("refusal", delta["refusal"]);
    for (const call of listIn(delta["tool_calls"], "`tool_calls`")) takeCall(call);
    growFields(
      message,
      present(without(delta, "role", "content", "refusal", "tool_calls", ...reasoningFields)),
      "join",
    );
  }

  function takeText(name: string, given: unknown, type?: "text" | "reasoning"): void {
    const text = stringIn(given, `\`${name}\``);
    if (!text) return;
    (texts[name] ??= []).push(text);
    if (type) onPiece({ type, text });
  }

  function takeCall(part: Fields): void {
    const called = isObject(part["function"]) ? part["function"] : {};
    const call = callFor(part, textIn(called["name"]));
    growFields(call.added, present(without(part, "id", "type", "index", "function")), "join");
    growFields(call.addedToFunction, present(without(called, "name", "arguments")), "join");
    const given = called["arguments"];
    const text = isObject(given) ? JSON.stringify(given) : stringIn(given, "`arguments`");
    if (text) takeArguments(call, text);
  }

  function takeArguments(call: Call, text: string): void {
    call.arguments.push(text);
    onPiece({ type: "arguments", call_id: call.id, name: call.name, text });
  }

  /** Finds the call that a part belongs to. Some servers send no index, or the same index for all calls. */
  function callFor({ index, id }: Fields, name: string | undefined): Call {
    const given = textIn(id);
    const isIndexed = typeof index === "number";
    const last = isIndexed ? calls.findLast((call) => call.index === index) : calls.at(-1);
    const isOther = last !== undefined && name !== undefined && given !== undefined && given !== last.given;
    const isNext = !isIndexed && name !== undefined && given === undefined;
    if (last && !isOther && !isNext) return last;
    if (name === undefined) throw broken("a tool call without a function name");
    const call = { index, given, id: callIds(given), name, arguments: [], added: {}, addedToFunction: {} };
    calls.push(call);
    return call;
  }

  function whole(): Fields {
    const written = Object.fromEntries(Object.entries(texts).map(([name, parts]) => [name, parts.join("")]));
    const tool_calls = calls.map(({ id, name, arguments: parts, added, addedToFunction }) => ({
      ...added,
      id,
      function: { ...addedToFunction, name, arguments: parts.join("") },
    }));
    return { ...completion, choices: [{ ...choice, message: { ...message, ...written, tool_calls } }] };
  }

  return {
    take(chunk) {
      Object.assign(completion, present(without(chunk, "choices")));
      const part = objectsIn(chunk["choices"]).find(({ index = 0 }) => index === 0);
      if (!part) return undefined;
      isBegun = true;
      growFields(choice, present(without(part, "delta")), "replace");
      if (isObject(part["delta"])) takeDelta(part["delta"]);
      return undefined;
    },
    // Not every server sends [DONE], but all servers send a reason for stopping.
    end() {
      if (!isBegun || !textIn(choice["finish_reason"])) return undefined;
      for (const call of calls) if (call.arguments.length === 0) takeArguments(call, "{}");
      return answerIn(whole(), String);
    },
  };
}

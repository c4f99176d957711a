// scriptedModel(): answers from a script, for tests, examples and solutions, without a key or a network.
import { assistantTurns, type Item, type Model, type ModelRequest, type ModelResponse } from "../core/model.ts";
import { boundary, HoldfastError } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import { callItem, givePieces, madeResponse, orCancelled, refuseCancelled, textItem } from "./local-response.ts";

export interface ScriptedCall {
  name: string;
  /** {} by default. A string is sent unchanged, so that a script can send arguments that are not JSON. */
  arguments?: Json;
}

/** One answer: a string, parallel calls (with a string before them), or the items from a server's answer. */
export type ScriptedAnswer =
  string | { text?: string; calls: readonly ScriptedCall[] } | (Partial<ModelResponse> & { output: readonly Item[] });

type MaybeAnswer = ScriptedAnswer | undefined;

/** `turn` is the number of the assistant's earlier turns, 0 at first. */
export type Script =
  readonly ScriptedAnswer[] | ((request: ModelRequest, turn: number) => MaybeAnswer | Promise<MaybeAnswer>);

/**
 * Returns a model with scripted answers: a list, or a function that returns the next one.
 *
 * It has no state. The next answer of a list follows from the number of the assistant's turns in the request's input.
 * So one model serves any number of parallel conversations, and continues after a restart. A turn is an uninterrupted
 * sequence of the assistant's messages, calls and reasoning. So if the input already starts with assistant turns, the
 * same number of answers is skipped: use a function in that case. An answer without items is returned again, because
 * the input does not contain it.
 *
 * At the end of the list, or if the function returns undefined, the model rejects with `model_exhausted`. An error of
 * the function becomes `model_failed`, unless it is a HoldfastError. Call ids are `call_<turn>_<n>`, both from 0. Usage
 * is an estimate: one token per four characters.
 *
 * @example
 * const model = scriptedModel(["Hello!", { calls: [{ name: "add", arguments: { by: 2 } }] }, "Done."]);
 */
export function scriptedModel(script: Script): Model {
  const name = "scripted";
  return {
    name,
    async respond(request, options = {}) {
      refuseCancelled(options.signal);
      const turn = assistantTurns(request.input);
      const answer = await orCancelled(options.signal, answerTo(script, request, turn));
      const { output, ...added } = answer;
      const response = { ...madeResponse(name, request, output), ...added };
      givePieces(output, options, words);
      return response;
    },
  };
}

async function answerTo(
  script: Script,
  request: ModelRequest,
  turn: number,
): Promise<Partial<ModelResponse> & { output: Item[] }> {
  const answer =
    typeof script === "function"
      ? await boundary("model_failed", "the script", () => script(request, turn))
      : script[turn];
  if (answer === undefined) throw exhausted(script, turn);
  if (typeof answer === "string") return { output: [textItem(`${turn}_0`, answer)] };
  if (typeof answer === "object" && answer !== null) {
    if ("calls" in answer) return { output: toItems(answer as { text?: string; calls: ScriptedCall[] }, turn) };
    // Returns a copy, because the receiver may change the answer, and the script must not change.
    if ("output" in answer) return copyJson(answer, "the script's answer", "drop") as unknown as ModelResponse;
  }
  throw new HoldfastError("model_failed", `answer ${turn} of the script must be a string, { calls } or { output }`);
}

function toItems({ text, calls }: { text?: string; calls: readonly ScriptedCall[] }, turn: number): Item[] {
  return [
    ...(text === undefined ? [] : [textItem(`${turn}_${calls.length}`, text)]),
    ...calls.map(({ name, arguments: args = {} }, n) =>
      callItem(`${turn}_${n}`, name, typeof args === "string" ? args : JSON.stringify(args)),
    ),
  ];
}

function exhausted(script: Script, turn: number): HoldfastError {
  const has =
    typeof script === "function"
      ? "the script function returned no answer"
      : `the script has ${script.length} ${script.length === 1 ? "answer" : "answers"}`;
  return new HoldfastError(
    "model_exhausted",
    `${has}, but the model was asked for answer ${turn + 1}; add an answer to the script, or end the conversation earlier`,
    { detail: { turn } },
  );
}

/** Splits a string into words. Each word includes the whitespace after it. */
const words = (text: string): string[] => text.split(/(?<=\s)(?=\S)/);

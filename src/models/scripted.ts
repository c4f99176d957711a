// A model that says what a script says: for tests, examples and solutions, with no key and no network.
import { assistantTurns } from "../core/model.ts";
import { boundary, HoldfastError } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import { callItem, givePieces, madeResponse, orCancelled, refuseCancelled, textItem } from "./local-response.ts";
import type { Item, Model, ModelRequest, ModelResponse } from "../core/model.ts";

export interface ScriptedCall {
  name: string;
  /** {} by default. A string is sent as it is: so a script can write arguments that are not JSON. */
  arguments?: Json;
}

/** One answer: a text, calls side by side (and what is said before them), or the items themselves as a server gives them. */
export type ScriptedAnswer =
  string | { text?: string; calls: readonly ScriptedCall[] } | (Partial<ModelResponse> & { output: readonly Item[] });

type MaybeAnswer = ScriptedAnswer | undefined;

/** `turn` is the number of turns that the assistant has had, 0 at first. */
export type Script =
  readonly ScriptedAnswer[] | ((request: ModelRequest, turn: number) => MaybeAnswer | Promise<MaybeAnswer>);

/**
 * A model whose answers are written down: a list of them, or a function that gives one.
 *
 * It keeps nothing. Which answer of a list is next is read from the request, by the number of turns that the assistant
 * has had in its input; so one model serves any number of conversations side by side, and goes on after a restart. A
 * turn is a longest run of the assistant's messages, calls and reasoning. Two things follow: an input that begins with
 * turns of an assistant skips as many answers (use a function there), and an answer with no items is given again, as
 * it leaves no trace.
 *
 * Where the list ends, or the function gives undefined, the model rejects with `model_exhausted`. What the function
 * throws becomes `model_failed`, unless it is a HoldfastError. Call ids are `call_<turn>_<n>`, both from 0; usage is
 * a rough count, a token for every four characters.
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
    if ("calls" in answer) return { output: itemsOf(answer as { text?: string; calls: ScriptedCall[] }, turn) };
    // A copy: who is given an answer may change it, and the script stays as it was written.
    if ("output" in answer) return copyJson(answer, "the script's answer", "drop") as unknown as ModelResponse;
  }
  throw new HoldfastError("model_failed", `answer ${turn} of the script is not a text, { calls } or { output }`);
}

function itemsOf({ text, calls }: { text?: string; calls: readonly ScriptedCall[] }, turn: number): Item[] {
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
      ? "the script gave no answer"
      : `the script has ${script.length} ${script.length === 1 ? "answer" : "answers"}`;
  return new HoldfastError(
    "model_exhausted",
    `${has}, and the assistant has had ${turn} ${turn === 1 ? "turn" : "turns"}; add an answer to the script, or end the conversation before`,
    { detail: { turn } },
  );
}

/** Word by word, each with the white space after it. */
const words = (text: string): string[] => text.split(/(?<=\s)(?=\S)/);

// randomModel(): makes random valid calls, as a baseline and as a stress test of an environment.
import { assistantTurns, isMessage, type Item, type Model, type ModelRequest, type ToolSchema } from "../core/model.ts";
import { hash } from "node:crypto";
import { canonicalText } from "../core/digest.ts";
import { invalidOption, type HoldfastError } from "../core/errors.ts";
import { copyJson } from "../core/json.ts";
import { callItem, givePieces, madeResponse, refuseCancelled, textItem } from "./local-response.ts";
import { sample } from "../core/json-sample.ts";
import { refuseUnknown } from "../core/suggest.ts";
import { between, chance, pick, randomStream, type Random } from "../core/random.ts";
import { spoiled } from "./random/chaos.ts";

export interface RandomModelOptions {
  /** A whole number; 0 by default. */
  seed?: number;
  /**
   * The probability of a faulty answer, from 0 to 1: invalid arguments, text that is not JSON, unknown tools, reserved
   * names, repeated call ids, no output at all. 0 by default.
   */
  chaos?: number;
  /** Maximum number of turns after the user's message; the last turn is a message. 8 by default. */
  steps?: number;
}

/**
 * Returns a model that answers at random: it calls one or several of the offered tools, with arguments made from their
 * schemas, and ends with a message.
 *
 * It has no state. An answer depends only on the seed and the request, so it is the same after a restart. If any field
 * of the request differs, the answer differs. So repeats get different answers if a field such as `metadata` differs.
 * It obeys `tool_choice` and `parallel_tool_calls`, except that the last of its `steps` is always a message. Usage is
 * an estimate: one token per four characters.
 *
 * @example
 * const model = randomModel({ seed: 7, chaos: 0.2 });
 */
export function randomModel(options: RandomModelOptions = {}): Model {
  const { seed = 0, chaos = 0, steps = 8 } = options;
  refuseUnknown("randomModel", options, { seed, chaos, steps }, invalidOption);
  if (!Number.isSafeInteger(seed)) throw invalid("seed", "a whole number", seed);
  if (!(chaos >= 0 && chaos <= 1)) throw invalid("chaos", "a number from 0 to 1", chaos);
  if (!(Number.isInteger(steps) && steps >= 1)) throw invalid("steps", "a whole number of at least 1", steps);
  const name = "random";
  return {
    name,
    async respond(request, options = {}) {
      refuseCancelled(options.signal);
      const digest = hash("sha256", canonicalText(copyJson(request, "the request", "drop")));
      const random = randomStream(seed, parseInt(digest.slice(0, 8), 16));
      const answer = answerTo(request, steps, `${seed}_${digest.slice(0, 12)}`, random);
      const output = chance(random, chaos) ? spoiled(answer, request, random) : answer;
      givePieces(output, options);
      return madeResponse(name, request, output);
    },
  };
}

function invalid(option: string, range: string, value: unknown): HoldfastError {
  return invalidOption(`${option} of randomModel must be ${range}, not ${String(value)}`);
}

function answerTo(request: ModelRequest, steps: number, id: string, random: Random): Item[] {
  const tools = toolsFor(request);
  const isLast = turnsSinceUser(request.input) >= steps - 1;
  const wantsCall = request.tool_choice !== undefined && request.tool_choice !== "auto";
  if (tools.length === 0 || isLast || !(wantsCall || chance(random, 0.8))) return [textItem(id, sentence(random))];
  const count = request.parallel_tool_calls === false || chance(random, 0.7) ? 1 : between(random, 2, 3);
  return Array.from({ length: count }, (_, n) => {
    const { name, parameters } = pick(random, tools) as ToolSchema;
    return callItem(`${id}_${n}`, name, JSON.stringify(sample({ type: "object", ...parameters }, random)));
  });
}

function toolsFor({ tools = [], tool_choice: choice }: ModelRequest): ToolSchema[] {
  if (choice === "none") return [];
  return typeof choice === "object" ? tools.filter(({ name }) => name === choice.name) : tools;
}

function turnsSinceUser(input: Item[]): number {
  const last = input.findLastIndex((item) => isMessage(item) && item.role === "user");
  return assistantTurns(input.slice(last + 1));
}

const sentences = ["Done.", "I am done.", "That is all.", "I do not know.", "The answer is"] as const;

function sentence(random: Random): string {
  const text = pick(random, sentences);
  return text.endsWith(".") ? text : `${text} ${between(random, -100, 100)}.`;
}

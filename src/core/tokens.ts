// The tokens in a model's answer, as its server sampled them. They are never computed from text.
import type { Item } from "./model.ts";

interface SampledTokens {
  /** The ids of everything before the answer. */
  prompt: readonly number[];
  generated: readonly number[];
  /** One per generated token; undefined if the server sent none. */
  logProbs: number | undefined;
}

/** Returns an item's tokens, under NeMo Gym's or vLLM's names; undefined if any of them is missing. */
function tokensOn(item: Item): SampledTokens | undefined {
  const { prompt_token_ids: prompt, generation_token_ids, token_ids } = item;
  const generated = generation_token_ids ?? token_ids;
  if (!isList(prompt) || !isList(generated)) return undefined;
  return { prompt, generated, logProbs: countLogProbs(item) };
}

/** Returns whether an item has any tokens of an answer. */
const hasTokens = ({ generation_token_ids, token_ids }: Item): boolean =>
  isList(generation_token_ids) || isList(token_ids);

function countLogProbs({ generation_log_probs: list, logprobs }: Item): number | undefined {
  if (isList(list)) return list.length;
  const { content } = Object(logprobs) as { content?: unknown };
  return isList(content) ? content.length : undefined;
}

/**
 * Returns the tokens up to the last answer that has them: the start of the next prompt. A server that tokenizes the
 * conversation's text again may get tokens that differ from the sampled ones.
 */
export function prefixTokens(input: readonly Item[]): number[] | undefined {
  const last = input.findLast((item) => tokensOn(item) !== undefined);
  const tokens = last && tokensOn(last);
  return tokens && [...tokens.prompt, ...tokens.generated];
}

/**
 * Returns the number, from 1, of the first answer whose tokens do not continue those of the previous answer; undefined
 * if all do. Each prompt must start with the previous prompt and the tokens generated for it. If one answer has tokens,
 * every answer needs them. If there are log-probabilities, there must be one for each token.
 */
export function brokenAnswer(answers: readonly (readonly Item[])[]): number | undefined {
  const carriers = answers.map((items) => items.find(hasTokens));
  if (carriers.every((item) => item === undefined)) return undefined;
  let before: SampledTokens | undefined;
  for (const [at, item] of carriers.entries()) {
    const tokens = item && tokensOn(item);
    if (!tokens || !continues(tokens, before)) return at + 1;
    before = tokens;
  }
  return undefined;
}

function continues({ prompt, generated, logProbs }: SampledTokens, before: SampledTokens | undefined): boolean {
  if (logProbs !== undefined && logProbs !== generated.length) return false;
  if (!before) return true;
  const { length } = before.prompt;
  if (prompt.length < length + before.generated.length) return false;
  return (
    before.prompt.every((id, at) => prompt[at] === id) && before.generated.every((id, at) => prompt[length + at] === id)
  );
}

const isList = (value: unknown): value is number[] => Array.isArray(value);

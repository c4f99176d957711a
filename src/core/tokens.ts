// The tokens in a model's answer, as its server sampled them. They are never computed from text.
import type { Item } from "./model.ts";

interface SampledTokens {
  /** The token ids of the prompt. */
  prompt: readonly number[];
  generated: readonly number[];
  /**
   * The number of log-probabilities, normally one per generated token; undefined if the server sent none, and NaN if
   * one of them is not a number.
   */
  logProbs: number | undefined;
  /** Whether the token ids and the log-probabilities name the same tokens. */
  isAgreed: boolean;
}

/** Returns an item's tokens, under NeMo Gym's or vLLM's names; undefined if any of them is missing. */
function tokensOn(item: Item): SampledTokens | undefined {
  const { prompt_token_ids: prompt } = item;
  const generated = generatedOn(item);
  if (!isIds(prompt) || !generated) return undefined;
  return { prompt, generated, logProbs: countLogProbs(item), isAgreed: channelsAgree(item, generated) };
}

/** Returns the ids of an item's sampled tokens. Some servers send them only inside the log-probabilities. */
function generatedOn(item: Item): readonly number[] | undefined {
  const generated = item["generation_token_ids"] ?? item["token_ids"];
  if (isList(generated)) return isIds(generated) ? generated : undefined;
  const ids = namedTokens(item);
  return ids && ids.length > 0 && ids.every((id) => id !== undefined) ? ids : undefined;
}

/** Returns whether an item has any tokens of an answer, for a chain of prompts and answers. */
const hasTokens = (item: Item): boolean =>
  isList(item["generation_token_ids"]) || isList(item["token_ids"]) || tokensOn(item) !== undefined;

/** Returns whether an answer has the tokens that the model sampled. */
export const isSampled = (answer: readonly Item[]): boolean => answer.some((item) => generatedOn(item) !== undefined);

/**
 * Returns the token id of each of an item's log-probabilities; undefined for a log-probability without an id. With
 * `return_tokens_as_token_ids`, vLLM writes an id as `token_id:123`.
 */
function namedTokens({ logprobs }: Item): (number | undefined)[] | undefined {
  const { content } = Object(logprobs) as { content?: unknown };
  if (!isList(content)) return undefined;
  return (content as unknown[]).map((entry) => {
    const { token } = Object(entry) as { token?: unknown };
    const [, id] = (typeof token === "string" && /^token_id:(\d+)$/.exec(token)) || [];
    return id === undefined ? undefined : Number(id);
  });
}

/** Returns whether an item's token ids and its log-probabilities name the same tokens. */
const channelsAgree = (item: Item, generated: readonly number[]): boolean =>
  namedTokens(item)?.every((id, at) => id === undefined || id === generated[at]) ?? true;

function countLogProbs({ generation_log_probs: list, logprobs }: Item): number | undefined {
  const { content } = Object(logprobs) as { content?: unknown };
  const found = isList(list) ? list : isList(content) ? content.map((entry) => numberIn(entry)) : undefined;
  return found?.every((logProb) => Number.isFinite(logProb)) === false ? NaN : found?.length;
}

const numberIn = (entry: unknown): unknown => (Object(entry) as { logprob?: unknown }).logprob;

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
 * Returns the number, from 1, of the first answer whose tokens do not continue the previous answer's tokens; undefined
 * if all do. Each prompt must start with the previous prompt and the tokens generated for it. If one answer has tokens,
 * every answer needs them. The same applies to log-probabilities: each token must have one, and both must name the same
 * token.
 */
export function brokenAnswer(answers: readonly (readonly Item[])[]): number | undefined {
  const carriers = answers.map((items) => items.find(hasTokens));
  if (carriers.every((item) => item === undefined)) return undefined;
  let before: SampledTokens | undefined;
  let hasLogProbs: boolean | undefined;
  for (const [at, item] of carriers.entries()) {
    const tokens = item && tokensOn(item);
    if (!tokens || !continues(tokens, before)) return at + 1;
    before = tokens;
    // An answer without tokens needs no log-probabilities.
    if (tokens.generated.length === 0) continue;
    const has = tokens.logProbs !== undefined;
    if (has !== (hasLogProbs ??= has)) return at + 1;
  }
  return undefined;
}

function continues(
  { prompt, generated, logProbs, isAgreed }: SampledTokens,
  before: SampledTokens | undefined,
): boolean {
  if (!isAgreed) return false;
  if (logProbs !== undefined && logProbs !== generated.length) return false;
  if (!before) return true;
  const { length } = before.prompt;
  if (prompt.length < length + before.generated.length) return false;
  return (
    before.prompt.every((id, at) => prompt[at] === id) && before.generated.every((id, at) => prompt[length + at] === id)
  );
}

const isList = (value: unknown): value is unknown[] => Array.isArray(value);

const isIds = (value: unknown): value is number[] =>
  isList(value) && value.every((id) => Number.isSafeInteger(id) && (id as number) >= 0);

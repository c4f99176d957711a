// A byte-pair encoder with a merges table of its own, and a model server that samples tokens no encoder would choose.
import { chatServer, completion, type ChatRequest, type ChatServer } from "./chat-server.ts";

/** In the order in which they were learned. */
const merges = ["h e", "l l", "he ll", "hell o", "s t", "a c", "st ac", "stac k", "b r", "i c", "br ic", "bric k"];
const ranks = new Map(merges.map((pair, rank) => [pair, rank]));
const letters = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at));
const vocabulary = ["\n", ...letters, ...merges.map((pair) => pair.replace(" ", ""))];
const ids = new Map(vocabulary.map((token, id) => [token, id]));

/** Joins the pair that was learned first, until none is left. */
export function encode(text: string): number[] {
  let parts = [...text];
  for (;;) {
    const pairs = parts.slice(1).map((part, at) => ranks.get(`${parts[at]} ${part}`) ?? Infinity);
    const best = Math.min(...pairs, Infinity);
    if (best === Infinity) return parts.map((part) => ids.get(part) as number);
    const at = pairs.indexOf(best);
    parts = [...parts.slice(0, at), `${parts[at]}${parts[at + 1]}`, ...parts.slice(at + 2)];
  }
}

export const decode = (tokens: readonly number[]): string => tokens.map((id) => vocabulary[id]).join("");

/** Every letter is a token: the same text, and other tokens than `encode` gives. */
const sample = (text: string): number[] => [...text].map((letter) => ids.get(letter) as number);

export interface Sampled {
  prompt: number[];
  tokens: number[];
  logProbs: number[];
}

/**
 * A policy server. With `prompts: "tokens"` it continues the tokens that the client sends; with "text" it tokenizes the whole
 * conversation again, as most servers do.
 */
export async function policyServer(prompts: "tokens" | "text"): Promise<ChatServer & { sampled: Sampled[] }> {
  const sampled: Sampled[] = [];
  const render = (messages: ChatRequest["messages"]): string =>
    messages.map(({ role, content, tool_calls: calls }) => `${role} ${content ?? JSON.stringify(calls)}\n`).join("");
  const server = await chatServer(({ messages, required_prefix_token_ids: prefix }) => {
    const last = messages.findLastIndex(({ role }) => role === "assistant");
    const isContinued = prompts === "tokens" && prefix !== undefined;
    const prompt = isContinued ? [...prefix, ...encode(render(messages.slice(last + 1)))] : encode(render(messages));
    const turn = messages.filter(({ role }) => role === "assistant").length;
    const tokens = sample(`hello, stack brick ${turn}`);
    const logProbs = tokens.map((id, at) => -Math.PI / (id + at + 3));
    sampled.push({ prompt, tokens, logProbs });
    const said = turn < 2 ? { name: "stack", arguments: { brick: "hello" } } : "hello";
    const answer = completion(said, { prompt_token_ids: prompt }) as { choices: object[] };
    const content = logProbs.map((logprob) => ({ token: "", logprob, bytes: null, top_logprobs: [] }));
    Object.assign(answer.choices[0] as object, { token_ids: tokens, logprobs: { content } });
    return answer;
  });
  return { ...server, sampled };
}

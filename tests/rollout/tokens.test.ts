// Tokens reach the row as they were sampled. A prompt that was tokenized again is found, and its row is not learned from.
import { createSessions, defineEnvironment, memoryStore, tool } from "holdfast";
import { createRolloutRequests } from "holdfast/rollout";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Item } from "../../src/core/model.ts";
import type { TaskRow } from "../../src/core/rollout.ts";
import { brokenAnswer } from "../../src/core/tokens.ts";
import { exportRollouts, type ExportOptions } from "../../src/rollout/export.ts";
import { decode, encode, policyServer } from "./bpe.ts";
import { newFolder } from "./folder.ts";

const pile = defineEnvironment({
  name: "pile",
  state: z.object({ bricks: z.number().default(0) }),
  seed: () => ({ bricks: 0 }),
  tools: {
    stack: tool({
      description: "Stack.",
      input: z.object({ brick: z.string() }),
      run: ({ state }) => ++state.bricks,
    }),
  },
  verify: ({ state }) => state.bricks,
});

async function rowFrom(url: string): Promise<TaskRow> {
  const store = memoryStore();
  const episodes = createSessions({ environment: pile, store });
  const sessions = createSessions({ app: "rollouts", store });
  const requests = createRolloutRequests({ store, episodes, sessions });
  const tasks = [{ responses_create_params: { input: "stack, hello" } }];
  const request = await requests.start({ tasks, model: { url, name: "policy", request: { return_token_ids: true } } });
  const rows: TaskRow[] = [];
  for await (const line of await requests.lines(request)) {
    const { row } = JSON.parse(line) as { row?: TaskRow };
    if (row) rows.push(row);
  }
  await requests.stop();
  expect(rows).toHaveLength(1);
  return rows[0] as TaskRow;
}

const answersIn = (row: TaskRow): Item[] =>
  (row["response"] as unknown as { output: Item[] }).output.filter(({ type }) => type !== "function_call_output");

async function exported(row: TaskRow, format: ExportOptions["format"] = "chat"): Promise<number> {
  const file = join(newFolder(), "rows.jsonl");
  writeFileSync(file, `${JSON.stringify(row)}\n`);
  const counts = { rollouts: 0, left_out: 0, lines: 0 };
  for await (const _ of exportRollouts(file, { format, minReward: 0, onBad: () => undefined }, counts)) void _;
  expect(counts.rollouts + counts.left_out).toBe(1);
  return counts.rollouts;
}

test("a row has the ids and log-probabilities of the server, bit by bit, and each prompt continues the sampled tokens", async () => {
  const { url, sampled, asked } = await policyServer("tokens");
  const row = await rowFrom(url);
  const answers = answersIn(row);
  expect(answers).toHaveLength(3);
  for (const [at, { prompt, tokens, logProbs }] of sampled.entries()) {
    const { prompt_token_ids, token_ids, logprobs } = answers[at] as { [field: string]: unknown };
    expect(prompt_token_ids).toEqual(prompt);
    expect(token_ids).toEqual(tokens);
    expect((logprobs as { content: { logprob: number }[] }).content.map(({ logprob }) => logprob)).toEqual(logProbs);
    // Tokens that are rebuilt from the text are others: this test would fail with them.
    expect(encode(decode(tokens))).not.toEqual(tokens);
    const before = sampled[at - 1];
    if (before)
      expect(prompt.slice(0, before.prompt.length + before.tokens.length)).toEqual([
        ...before.prompt,
        ...before.tokens,
      ]);
  }
  expect(asked[0]).not.toHaveProperty("required_prefix_token_ids");
  expect(row).not.toHaveProperty("token_chain");
  expect(row["reward"]).toBe(2);
  expect(await exported(row)).toBe(1);
});

test("a row whose server tokenizes the conversation again is marked with the answer, and is not exported", async () => {
  const { url } = await policyServer("text");
  const row = await rowFrom(url);
  expect(row).toMatchObject({ reward: 2, token_chain: "broken", token_chain_answer: 2 });
  expect(await exported(row)).toBe(0);
});

test("a row whose main conversation is ambiguous is only exported as messages", async () => {
  const row = {
    responses_create_params: { input: "Hi" },
    response: { output: [] },
    reward: 1,
    harness: { main: "ambiguous" },
  };
  expect([await exported(row), await exported(row, "sft"), await exported(row, "grpo")]).toEqual([1, 0, 0]);
});

describe("a chain of tokens", () => {
  const item = (prompt: number[] | undefined, tokens: number[] | undefined, logProbs?: number[]): Item[] => [
    {
      type: "message",
      role: "assistant",
      content: "",
      prompt_token_ids: prompt,
      generation_token_ids: tokens,
      generation_log_probs: logProbs,
    },
  ];
  test.each([
    ["is whole if every prompt begins with all tokens before it", [item([1], [2]), item([1, 2, 3], [4])], undefined],
    ["is absent if no answer has tokens", [item(undefined, undefined), item(undefined, undefined)], undefined],
    ["breaks at a prompt with another token", [item([1], [2]), item([1, 9, 3], [4])], 2],
    ["breaks at a prompt that is too short", [item([1], [2, 3]), item([1, 2], [4])], 2],
    ["breaks at an answer without tokens", [item([1], [2]), item(undefined, undefined), item([1, 2, 3], [4])], 2],
    ["breaks at an answer without the tokens of its prompt", [item(undefined, [2])], 1],
    ["breaks at missing log-probabilities", [item([1], [2, 3], [-0.5])], 1],
    ["breaks at an answer without log-probabilities", [item([1], [2], [-0.5]), item([1, 2, 3], [4])], 2],
    ["breaks at the first answer with log-probabilities", [item([1], [2]), item([1, 2, 3], [4], [-0.5])], 2],
    ["is whole with an empty answer without log-probabilities", [item([1], [2], [-0.5]), item([1, 2], [])], undefined],
    ["breaks at a log-probability that is not a number", [item([1], [2], [null as never])], 1],
    ["breaks at a token id that is not an integer", [item([1], [2.5])], 1],
    ["breaks at a prompt's token id that is not an integer", [item([1], [2]), item([1, 2, "3" as never], [4])], 2],
  ])("%s", (_, answers, wanted) => expect(brokenAnswer(answers)).toBe(wanted));
});

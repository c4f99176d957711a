// The outcome of one rollout: its score or failure, and its costs.
import type { Score } from "./pass.ts";
import type { Rollouts } from "./rollouts.ts";

export interface Outcome {
  /** The rollout's reward. A failed or masked rollout has none, even if its row has a reward. */
  score: Score;
  failed: boolean;
  input: number | undefined;
  output: number | undefined;
  /** Input and output together. */
  tokens: number | undefined;
  seconds: number | undefined;
}

export function readOutcome(rollouts: Rollouts, rollout: number): Outcome {
  const told: { [column in "reward" | "input_tokens" | "output_tokens" | "total_tokens" | "seconds"]?: number } = {};
  rollouts.each(rollout, (column, value) => {
    switch (column) {
      case "reward":
      case "input_tokens":
      case "output_tokens":
      case "total_tokens":
      case "seconds":
        told[column] = value;
    }
  });
  const { reward, input_tokens: input, output_tokens: output, total_tokens, seconds } = told;
  const failed = rollouts.failed(rollout);
  const known = input !== undefined || output !== undefined;
  const tokens = total_tokens ?? (known ? (input ?? 0) + (output ?? 0) : undefined);
  return { score: rollouts.counts(rollout) ? reward : undefined, failed, input, output, tokens, seconds };
}

const names = ["input", "output", "tokens", "seconds"] as const;

/** Sums of costs. A cost that no rollout has is missing. */
export type Costs = { [cost in (typeof names)[number]]?: number };

export function addCosts(costs: Costs, outcome: Outcome): void {
  for (const name of names) {
    const value = outcome[name];
    if (value !== undefined) costs[name] = (costs[name] ?? 0) + value;
  }
}

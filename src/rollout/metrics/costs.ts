// Adds up the costs of rollouts: tokens and time.
import type { Outcome } from "./outcome.ts";

const names = ["input", "output", "tokens", "seconds"] as const;

/** Sums; a cost that no rollout has is missing. */
export type Costs = { [cost in (typeof names)[number]]?: number };

export function addCosts(costs: Costs, outcome: Outcome): void {
  for (const name of names) {
    const value = outcome[name];
    if (value !== undefined) costs[name] = (costs[name] ?? 0) + value;
  }
}

// The table of tasks: what each one's rollouts earned, how far they were apart, and what they cost.
import { addCosts, createCosts } from "./costs.ts";
import type { Outcome } from "./outcome.ts";
import { finite, largest, mean, sampleStd, smallest } from "./statistics.ts";

/** null where nothing is known, or where huge numbers add up to more than a number can be. */
export interface TaskMetrics {
  task: number;
  rollouts: number;
  /** How many of them have a reward; mean, min, max and std are of those. */
  scored: number;
  failures: number;
  mean: number | null;
  min: number | null;
  max: number | null;
  /** That of a sample; 0 for a single one. */
  std: number | null;
  /** Of all its rollouts together, those that failed too. */
  tokens: number | null;
  seconds: number | null;
}

export function taskMetrics(task: number, outcomes: Outcome[]): TaskMetrics {
  const scores = outcomes.flatMap(({ score }) => score ?? []);
  const costs = createCosts();
  for (const outcome of outcomes) addCosts(costs, outcome);
  return {
    task,
    rollouts: outcomes.length,
    scored: scores.length,
    failures: outcomes.filter(({ failed }) => failed).length,
    mean: finite(mean(scores)),
    min: finite(smallest(scores)),
    max: finite(largest(scores)),
    std: scores.length === 1 ? 0 : finite(sampleStd(scores)),
    tokens: costs.tokens.total(),
    seconds: costs.seconds.total(),
  };
}

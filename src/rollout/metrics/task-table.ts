// taskMetrics(): a task's row in the tasks table: its rewards, their spread, and its costs.
import { addCosts, type Costs, type Outcome } from "./outcome.ts";
import { finite, largest, mean, sampleStd, smallest } from "./statistics.ts";

/** Unknown values, and sums that are not finite, are null. */
export interface TaskMetrics {
  task: number;
  rollouts: number;
  /** The number of rollouts with a reward; mean, min, max and std are computed from them. */
  scored: number;
  failures: number;
  mean: number | null;
  min: number | null;
  max: number | null;
  /** The sample standard deviation; 0 for a single reward. */
  std: number | null;
  /** The sum over all rollouts of the task, including failed rollouts. */
  tokens: number | null;
  seconds: number | null;
}

export function taskMetrics(task: number, outcomes: Outcome[]): TaskMetrics {
  const scores = outcomes.flatMap(({ score }) => score ?? []);
  const costs: Costs = {};
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
    tokens: finite(costs.tokens),
    seconds: finite(costs.seconds),
  };
}

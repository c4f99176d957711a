// createMetrics(): computes metrics of rollouts, row by row: NeMo Gym's statistics, pass rates, intervals, costs and
// failures.
import { HoldfastError } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import { createPace } from "../io/pace.ts";
import { groupEntry, overall, type GroupEntry } from "./metrics/baseline.ts";
import { bootstrap, type Interval, type TaskShare } from "./metrics/bootstrap.ts";
import { addCosts, type Costs } from "./metrics/costs.ts";
import { createFailures, type FailureCount } from "./metrics/failures.ts";
import { histogram, type Bin } from "./metrics/histogram.ts";
import { readOutcome } from "./metrics/outcome.ts";
import { anyOf, passMetrics, type Score } from "./metrics/pass.ts";
import { createRollouts, type Rollouts } from "./metrics/rollouts.ts";
import { readRow } from "./metrics/row.ts";
import { finite, sum, type Metrics } from "./metrics/statistics.ts";
import { taskMetrics, type TaskMetrics } from "./metrics/task-table.ts";

export interface AggregateMetrics {
  /** One per task, in order of their numbers. */
  group_level_metrics: GroupEntry[];
  /** Over all rollouts. */
  agent_metrics: Metrics;
  /** The means among `agent_metrics`. */
  key_metrics: Metrics;
}

export interface MetricsOptions {
  /** The field with the rollout's answer; enables `majority@{k}` and the score `no_answer`. */
  answerKey?: string;
  /** Seed of the confidence intervals: the same seed draws the same tasks. Default 0. */
  seed?: number;
}

/** A metric with its 95% confidence interval. */
export interface Estimate extends Interval {
  /** `mean/reward`, or `pass@{k}/accuracy` in percent. */
  name: string;
}

export interface CollectionMetrics {
  rollouts: number;
  /** Number of rollouts with a reward. A row with a `failure_kind` never has one. */
  scored: number;
  /** Statistics over all rows, as {@link aggregate} returns them. */
  agent_metrics: Metrics;
  key_metrics: Metrics;
  /** Of the scored rollouts, in percent: `pass@{k}`, `pass^{k}`, `pass@1[avg-of-{k}]`, `majority@{k}`. */
  pass_metrics: Metrics;
  /** Of the scored rollouts, by bootstrap over tasks. */
  estimates: Estimate[];
  /** In order of their numbers. */
  tasks: TaskMetrics[];
  failures: FailureCount[];
  /** Of all rollouts, including failed ones; null if no row has the field. */
  tokens: { input: number | null; output: number | null; total: number | null };
  seconds: number | null;
  /** Of the rewards of scored rollouts. */
  histogram: Bin[];
}

export interface RunningMetrics {
  /** Counts a row; other values are ignored. Throws on a row with more than 1,000 different numbers. */
  add(row: unknown): void;
  /** Returns the metrics of the rows so far. More rows may follow. */
  result(): CollectionMetrics;
  /**
   * Yields the entries of the tasks one by one: together they are as long as the file. `expected`: the planned number
   * of rollouts of a task.
   */
  groups(expected?: (task: number) => number | undefined): Iterable<GroupEntry>;
}

/**
 * Computes metrics of rows added one by one. It keeps only numbers: 16 bytes per number and 40 per row, at most twice
 * that. The first k rollouts of a task are those with the lowest `_ng_rollout_index`. Tokens come from the usage, time
 * from `seconds`. A row without `_ng_task_index` counts as task 0, as in NeMo Gym: `finishedRollouts` adds the numbers.
 *
 * @example
 * const metrics = createMetrics({ answerKey: "extracted_answer" });
 * for await (const line of lines) metrics.add(JSON.parse(line));
 * metrics.result().estimates[0]; // { name: "mean/reward", value: 0.25, low: 0, high: 0.5 }
 */
export function createMetrics({ answerKey, seed = 0 }: MetricsOptions = {}): RunningMetrics {
  const rollouts = createRollouts();
  const failures = createFailures();
  return {
    add(row) {
      if (!isObject(row)) return;
      const counted = readRow(row, answerKey);
      rollouts.add(counted);
      if (counted.failure !== undefined) failures.add(counted.failure);
    },
    result() {
      const { tasks, scores, answers, costs } = byTask(rollouts);
      const given = scores.flat().filter((score) => score !== undefined);
      return {
        rollouts: rollouts.count(),
        scored: given.length,
        ...overall(rollouts),
        pass_metrics: answerKey === undefined ? passMetrics(scores) : withAnswers(scores, answers),
        estimates: estimate(scores, seed),
        tasks,
        failures: failures.counts(),
        tokens: { input: finite(costs.input), output: finite(costs.output), total: finite(costs.tokens) },
        seconds: finite(costs.seconds),
        histogram: histogram(given),
      };
    },
    *groups(expected = () => undefined) {
      for (const group of rollouts.groups()) yield groupEntry(rollouts, group, expected(group.task));
    },
  };
}

/**
 * Returns `mean`, `max`, `min`, `median` and `std` of every number, over all rows and per task. `std` is the sample's;
 * for a single row it is 0.
 *
 * @example
 * const metrics = await aggregate([{ _ng_task_index: 0, reward: 1 }, { _ng_task_index: 1, reward: 0 }]);
 * metrics.key_metrics; // { "mean/reward": 0.5 }
 */
export async function aggregate(rows: unknown): Promise<AggregateMetrics> {
  if (!Array.isArray(rows)) {
    throw new HoldfastError("invalid_input", "`verify_responses` must be a list of the rows that verify gave");
  }
  // createMetrics would also bootstrap, which is too slow for a server's reply.
  const rollouts = createRollouts();
  const pace = createPace();
  for (const row of rows) {
    if (isObject(row)) rollouts.add(readRow(row));
    await pace();
  }
  const groups: GroupEntry[] = [];
  for (const group of rollouts.groups()) {
    groups.push(groupEntry(rollouts, group));
    await pace();
  }
  return { group_level_metrics: groups, ...overall(rollouts) };
}

interface ByTask {
  tasks: TaskMetrics[];
  scores: Score[][];
  answers: Score[][];
  costs: Costs;
}

function byTask(rollouts: Rollouts): ByTask {
  const found: ByTask = { tasks: [], scores: [], answers: [], costs: {} };
  for (const group of rollouts.groups()) {
    const outcomes = group.rollouts.map((rollout) => readOutcome(rollouts, rollout));
    found.tasks.push(taskMetrics(group.task, outcomes));
    found.scores.push(outcomes.map(({ score }) => score));
    found.answers.push(group.rollouts.map((rollout) => rollouts.answer(rollout)));
    for (const outcome of outcomes) addCosts(found.costs, outcome);
  }
  return found;
}

function withAnswers(scores: Score[][], answers: Score[][]): Metrics {
  const unanswered = scores.map((task, at) =>
    task.map((score, rollout) => (score === undefined ? undefined : Number(answers[at]?.[rollout] === undefined))),
  );
  return { ...passMetrics(scores, { answers }), ...passMetrics(unanswered, { score: "no_answer", answers }) };
}

function estimate(scores: Score[][], seed: number): Estimate[] {
  const shares = scores.flatMap((task): TaskShare[] => {
    const given = task.filter((score) => score !== undefined);
    if (given.length === 0) return [];
    const passed = anyOf(given);
    return [{ over: [sum(given), ...passed], under: [given.length, ...passed.map(() => 1)] }];
  });
  return bootstrap(shares, seed).flatMap((interval, k) => {
    if (interval === null) return [];
    if (k === 0) return [{ name: "mean/reward", ...interval }];
    const [value, low, high] = [100 * interval.value, 100 * interval.low, 100 * interval.high];
    return Number.isFinite(high - low) ? [{ name: `pass@${k}/accuracy`, value, low, high }] : [];
  });
}

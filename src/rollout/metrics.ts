// Metrics of finished rollouts, row by row: the statistics of a NeMo Gym collection, and what a reader asks next.
import { HoldfastError } from "../core/errors.ts";
import { groupEntry, overall, type GroupEntry } from "./metrics/baseline.ts";
import { bootstrap, type Interval, type TaskShare } from "./metrics/bootstrap.ts";
import { addCosts, createCosts, type Costs } from "./metrics/costs.ts";
import { createFailures, type FailureCount } from "./metrics/failures.ts";
import { histogram, type Bin } from "./metrics/histogram.ts";
import { outcomeOf } from "./metrics/outcome.ts";
import { anyOf, passMetrics, type Score } from "./metrics/pass.ts";
import { byIndex, createRollouts, type Rollouts } from "./metrics/rollouts.ts";
import { isObject, readRow } from "./metrics/row.ts";
import { sum, type Metrics } from "./metrics/statistics.ts";
import { taskMetrics, type TaskMetrics } from "./metrics/task-table.ts";

export interface AggregateMetrics {
  /** One for each task, in the order of their numbers. */
  group_level_metrics: GroupEntry[];
  /** Over all rollouts. */
  agent_metrics: Metrics;
  /** The means of those. */
  key_metrics: Metrics;
}

export interface MetricsOptions {
  /** The field of a row that holds the rollout's answer; with it there are `majority@{k}` and the score `no_answer`. */
  answerKey?: string;
  /** Of the confidence intervals: the same seed draws the same tasks. Default: 0. */
  seed?: number;
}

/** A figure with its confidence interval of 95%. */
export interface Estimate extends Interval {
  /** `mean/reward`, or `pass@{k}/accuracy` in percent. */
  name: string;
}

export interface RunMetrics {
  rollouts: number;
  /** How many have a reward. One with a `failure_kind` has none, whatever its row says. */
  scored: number;
  /** Statistics over all rows, as {@link aggregate} gives them. */
  agent_metrics: Metrics;
  key_metrics: Metrics;
  /** Of the scored rollouts, in percent: `pass@{k}`, `pass^{k}`, `pass@1[avg-of-{k}]`, `majority@{k}`. */
  pass_metrics: Metrics;
  /** Of the scored rollouts, by drawing tasks again. */
  estimates: Estimate[];
  /** In the order of their numbers. */
  tasks: TaskMetrics[];
  failures: FailureCount[];
  /** Of all rollouts, those that failed too; null where no row says it. */
  tokens: { input: number | null; output: number | null; total: number | null };
  seconds: number | null;
  /** Of the rewards of scored rollouts. */
  histogram: Bin[];
}

export interface RunningMetrics {
  /** Counts a row; what is no object is passed over. Refuses a row that brings more than 1,000 different numbers. */
  add(row: unknown): void;
  /** Of the rows so far. More may follow. */
  result(): RunMetrics;
  /**
   * The entries of the tasks one after the other, as together they are as long as the file. `expected` is how many
   * rollouts of a task were planned.
   */
  groups(expected?: (task: number) => number | undefined): Iterable<GroupEntry>;
}

/**
 * Metrics of rows that come one at a time. Only numbers are kept: 10 bytes for each and 33 for each row, or up to twice
 * that. The first k rollouts of a task are those with the lowest `_ng_rollout_index`; tokens are those of the usage, and
 * time is the field `seconds`.
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
        estimates: estimatesOf(scores, seed),
        tasks,
        failures: failures.counts(),
        tokens: { input: costs.input.total(), output: costs.output.total(), total: costs.tokens.total() },
        seconds: costs.seconds.total(),
        histogram: histogram(given),
      };
    },
    *groups(expected = () => undefined) {
      for (const group of rollouts.groups()) yield groupEntry(rollouts, group, expected(group.task));
    },
  };
}

/**
 * `mean`, `max`, `min`, `median` and `std` of every number in the rows, over all of them and for each task. `std` is
 * that of a sample; of a single row it is 0.
 *
 * @example
 * aggregate([{ _ng_task_index: 0, reward: 1 }, { _ng_task_index: 1, reward: 0 }]).key_metrics; // { "mean/reward": 0.5 }
 */
export function aggregate(rows: unknown): AggregateMetrics {
  if (!Array.isArray(rows)) {
    throw new HoldfastError("invalid_input", "`verify_responses` must be a list of the rows that verify gave");
  }
  // Not createMetrics: a server that is asked for these does not draw tasks a thousand times.
  const rollouts = createRollouts();
  for (const row of rows) if (isObject(row)) rollouts.add(readRow(row));
  const groups = Array.from(rollouts.groups(), (group) => groupEntry(rollouts, group));
  return { group_level_metrics: groups, ...overall(rollouts) };
}

interface ByTask {
  tasks: TaskMetrics[];
  scores: Score[][];
  answers: Score[][];
  costs: Costs;
}

function byTask(rollouts: Rollouts): ByTask {
  const found: ByTask = { tasks: [], scores: [], answers: [], costs: createCosts() };
  for (const group of rollouts.groups()) {
    const ordered = byIndex(rollouts, group);
    const outcomes = ordered.map((rollout) => outcomeOf(rollouts, rollout));
    found.tasks.push(taskMetrics(group.task, outcomes));
    found.scores.push(outcomes.map(({ score }) => score));
    found.answers.push(ordered.map((rollout) => rollouts.answer(rollout)));
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

function estimatesOf(scores: Score[][], seed: number): Estimate[] {
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

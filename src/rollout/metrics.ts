// createMetrics(): computes metrics row by row: NeMo Gym's statistics, pass rates, intervals, costs and failures.
import { HoldfastError } from "../core/errors.ts";
import { isObject } from "../core/json.ts";
import { doAtOnce, doInPieces, type Steps } from "../io/pace.ts";
import { groupEntry, overall, type GroupEntry } from "./metrics/baseline.ts";
import { bootstrap, type Interval, type TaskShare } from "./metrics/bootstrap.ts";
import { createFailures, type FailureCount } from "./metrics/failures.ts";
import { histogram, type Bin } from "./metrics/histogram.ts";
import { addCosts, readOutcome, type Costs } from "./metrics/outcome.ts";
import { areRates, bestOf, passMetrics, toNames, worstOf, type Score } from "./metrics/pass.ts";
import { createRollouts, type Rollouts } from "./metrics/rollouts.ts";
import { readRow } from "./metrics/row.ts";
import { finite, sum, type Metrics } from "./metrics/statistics.ts";
import { taskMetrics, type TaskMetrics } from "./metrics/task-table.ts";

export interface AggregateMetrics {
  /** One entry per task, ordered by task number. */
  group_level_metrics: GroupEntry[];
  /** Over all rollouts. */
  agent_metrics: Metrics;
  /** The means among `agent_metrics`. */
  key_metrics: Metrics;
}

export interface MetricsOptions {
  /** The field with the rollout's answer; enables `majority@{k}` and the score `no_answer`. */
  answerKey?: string;
  /** Seed for the confidence intervals. The same seed draws the same tasks. Default 0. */
  seed?: number;
  /** The lowest reward that counts as a success. By default, success rates exist only if all rewards are 0 or 1. */
  success?: number;
}

/** A metric with its 95% confidence interval. */
export interface Estimate extends Interval {
  /**
   * `mean/reward`, `mean/metrics.{name}`, and `pass@{k}/accuracy` in percent or `best@{k}/reward`, `worst@{k}/reward`.
   */
  name: string;
}

export interface CollectionMetrics {
  rollouts: number;
  /** Number of rollouts with a reward. A row with a `failure_kind` or `mask_sample` never has one. */
  scored: number;
  /** Number of rollouts with `mask_sample` that did not fail. No statistic includes them. */
  masked: number;
  /** Statistics over all rows, from {@link aggregate}. */
  agent_metrics: Metrics;
  key_metrics: Metrics;
  /** For the scored rollouts, from {@link passMetrics}. */
  pass_metrics: Metrics;
  /** For the scored rollouts, by bootstrap over tasks. */
  estimates: Estimate[];
  /** The tasks, in order of their numbers. */
  tasks: TaskMetrics[];
  failures: FailureCount[];
  /** For all rollouts, including failed rollouts; null if no row has the field. */
  tokens: { input: number | null; output: number | null; total: number | null };
  /** True if tokens were estimated, which is the case for scripted models. */
  tokens_estimated: boolean;
  seconds: number | null;
  /** The histogram of the scored rollouts' rewards. */
  histogram: Bin[];
}

export interface RunningMetrics {
  /** Counts a row; ignores any other value. Throws on a row with more than 1,000 different numbers. */
  add(row: unknown): void;
  /** Returns the metrics of the rows so far. More rows may follow. */
  result(): CollectionMetrics;
  /**
   * Yields the task entries one by one, because together they can be as large as the file. `expected`: the planned
   * number of rollouts per task.
   */
  groups(expected?: (task: number) => number | undefined): Iterable<GroupEntry>;
}

/**
 * Computes metrics of rows added one by one. It keeps only numbers in memory: 16 bytes per number and 40 per row, at
 * most twice that. The first k rollouts of a task are the rollouts with the lowest `_ng_rollout_index`. Tokens come
 * from the usage, time from `seconds`. A row without `_ng_task_index` counts as task 0, as in NeMo Gym:
 * `finishedRollouts` adds the numbers.
 *
 * @example
 * const metrics = createMetrics({ answerKey: "extracted_answer" });
 * for await (const line of lines) metrics.add(JSON.parse(line));
 * metrics.result().estimates[0]; // { name: "mean/reward", value: 0.25, low: 0, high: 0.5 }
 */
export function createMetrics({ answerKey, seed = 0, success }: MetricsOptions = {}): RunningMetrics {
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
      const { tasks, scores, answers, costs, means } = byTask(rollouts);
      const given = scores.flat().filter((score) => score !== undefined);
      const judged =
        success === undefined ? scores : scores.map((task) => task.map((score) => atLeast(success, score)));
      return {
        rollouts: rollouts.count(),
        scored: given.length,
        masked: rollouts.masked(),
        ...doAtOnce(overall(rollouts)),
        pass_metrics: answerKey === undefined ? passMetrics(judged) : withAnswers(judged, answers),
        estimates: estimate({ scores, judged, means }, rollouts.metrics(), seed),
        tasks,
        failures: failures.counts(),
        tokens: { input: finite(costs.input), output: finite(costs.output), total: finite(costs.tokens) },
        tokens_estimated: rollouts.hasEstimates(),
        seconds: finite(costs.seconds),
        histogram: histogram(given),
      };
    },
    *groups(expected = () => undefined) {
      for (const group of doAtOnce(rollouts.groups()))
        yield doAtOnce(groupEntry(rollouts, group, expected(group.task)));
    },
  };
}

/**
 * Returns `mean`, `max`, `min`, `median` and `std` of every number, over all rows and per task. `std` is the sample
 * standard deviation; for a single row it is 0.
 *
 * @example
 * const protocol = gymProtocol({ sessions, tokens, aggregate });
 */
export async function aggregate(rows: unknown): Promise<AggregateMetrics> {
  if (!Array.isArray(rows)) {
    throw new HoldfastError("invalid_input", "`verify_responses` must be a list of rows, as /verify returns them");
  }
  return doInPieces(aggregateSteps(rows));
}

/** Does not use createMetrics, because its bootstrap intervals are too slow for a server's reply. */
function* aggregateSteps(rows: unknown[]): Steps<AggregateMetrics> {
  const rollouts = createRollouts();
  for (const row of rows) {
    if (isObject(row)) rollouts.add(readRow(row));
    yield;
  }
  const groups: GroupEntry[] = [];
  for (const group of yield* rollouts.groups()) groups.push(yield* groupEntry(rollouts, group));
  return { group_level_metrics: groups, ...(yield* overall(rollouts)) };
}

interface ByTask {
  tasks: TaskMetrics[];
  scores: Score[][];
  answers: Score[][];
  costs: Costs;
  /** The sum and the number of values, for each task and metric. */
  means: MetricSum[][];
}

interface MetricSum {
  sum: number;
  count: number;
}

function byTask(rollouts: Rollouts): ByTask {
  const found: ByTask = { tasks: [], scores: [], answers: [], costs: {}, means: [] };
  const names = new Map(rollouts.metrics().map((name, at) => [name, at]));
  for (const group of doAtOnce(rollouts.groups())) {
    const outcomes = group.rollouts.map((rollout) => readOutcome(rollouts, rollout));
    found.tasks.push(taskMetrics(group.task, outcomes));
    found.scores.push(outcomes.map(({ score }) => score));
    found.answers.push(group.rollouts.map((rollout) => rollouts.answer(rollout)));
    for (const outcome of outcomes) addCosts(found.costs, outcome);
    found.means.push(sumMetrics(rollouts, group.rollouts, names));
  }
  return found;
}

/** Sums the metrics of a task's scored rollouts. */
function sumMetrics(rollouts: Rollouts, group: number[], names: Map<string, number>): MetricSum[] {
  const sums = Array.from(names, () => ({ sum: 0, count: 0 }));
  if (names.size === 0) return sums;
  for (const rollout of group) {
    if (!rollouts.counts(rollout)) continue;
    rollouts.each(rollout, (column, value) => {
      const total = sums[names.get(column) ?? -1];
      if (total) [total.sum, total.count] = [total.sum + value, total.count + 1];
    });
  }
  return sums;
}

const atLeast = (success: number, score: Score): Score => (score === undefined ? undefined : Number(score >= success));

function withAnswers(scores: Score[][], answers: Score[][]): Metrics {
  const unanswered = scores.map((task, at) =>
    task.map((score, rollout) => (score === undefined ? undefined : Number(answers[at]?.[rollout] === undefined))),
  );
  return { ...passMetrics(scores, { answers }), ...passMetrics(unanswered, { score: "no_answer", answers }) };
}

/** `judged`: the scores, with 0 or 1 for each if `success` is set. */
function estimate(
  { scores, judged, means }: Pick<ByTask, "scores" | "means"> & { judged: Score[][] },
  metrics: string[],
  seed: number,
): Estimate[] {
  const isRate = areRates(judged);
  const { unit, best, worst } = toNames(isRate);
  const shares = scores.flatMap((task, at): TaskShare[] => {
    const given = task.filter((score) => score !== undefined);
    if (given.length === 0) return [];
    const own = means[at] ?? [];
    const [high, low] = [bestOf(judged[at] ?? []), isRate ? [] : worstOf(judged[at] ?? [])];
    const curves = high.flatMap((value, k) => (isRate ? [value] : [value, low[k] ?? 0]));
    return [
      {
        over: [sum(given), ...own.map((metric) => metric.sum), ...curves],
        under: [given.length, ...own.map(({ count }) => count), ...curves.map(() => 1)],
      },
    ];
  });
  const named = (at: number): string => {
    if (at <= metrics.length) return `mean/${at === 0 ? "reward" : metrics[at - 1]}`;
    const place = at - metrics.length - 1;
    if (isRate) return best(place + 1);
    return (place % 2 === 0 ? best : worst)(Math.floor(place / 2) + 1);
  };
  return bootstrap(shares, seed).flatMap((interval, at) => {
    if (interval === null) return [];
    const scale = at > metrics.length ? unit : 1;
    const [value, low, high] = [scale * interval.value, scale * interval.low, scale * interval.high];
    return Number.isFinite(high - low) ? [{ name: named(at), value, low, high }] : [];
  });
}

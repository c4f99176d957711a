// Metrics of a whole run, for its summary and charts. Uses the formulas of `holdfast metrics`.
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { bootstrap, type Interval } from "../../../../src/rollout/metrics/bootstrap.ts";
import { createFailures, type FailureCount } from "../../../../src/rollout/metrics/failures.ts";
import { histogram, type Bin } from "../../../../src/rollout/metrics/histogram.ts";
import { createTotals } from "../../../../src/rollout/collection-index/totals.ts";
import { areRates, passMetrics, toNames, type Score } from "../../../../src/rollout/metrics/pass.ts";
import { reasonGroup } from "./filter.ts";
import { groupRows, type TaskGroup } from "./groups.ts";

export interface RunMetrics {
  rows: number;
  scored: number;
  masked: number;
  failed: number;
  /** The mean over all scored rows. */
  reward: number | null;
  /** The sum over all rows; null if no row has tokens. */
  tokens: number | null;
  /** Whether the tokens of some row were estimated. */
  isEstimate: boolean;
  /** The sum of the rows' durations. */
  seconds: number | null;
  /** When the first row began, in seconds since 1970, and the time until the end of the last. */
  began: number | null;
  wallSeconds: number | null;
  tasks: TaskGroup[];
  /** The mean reward of each task with a reward. */
  means: Map<number, number>;
  rewards: Bin[];
  /** True if every reward is 0 or 1: then rewards are successes. */
  isRate: boolean;
  /** For k = 1, 2, 3 …: pass@k and pass^k, in percent; for other rewards best@k and worst@k, in units of the reward. */
  best: Score[];
  worst: Score[];
  kinds: FailureCount[];
  /** Reasons of failures, most frequent first. */
  reasons: ReasonCount[];
  /** Names of verify's metrics, most frequent first. */
  metricNames: string[];
  metricMeans: Map<string, number>;
  stops: FailureCount[];
  tools: string[];
  hasBranches: boolean;
}

interface Sum {
  sum: number;
  count: number;
}

export interface ReasonCount {
  kind: string;
  /** The filter's name of the group: the reason without its numbers. */
  group: string;
  /** The reason of the first row of the group. */
  reason: string;
  count: number;
}

/** Bounds the list, because a model may invent a tool name for every call. */
const mostTools = 200;

export function computeRunMetrics(rows: readonly RowSummary[]): RunMetrics {
  const tasks = groupRows(rows, rows.keys());
  const [kinds, stops, tools] = [createFailures(), createFailures(), new Set<string>()];
  const [tokens, seconds] = [total(rows, (row) => row.tokens), total(rows, (row) => row.seconds)];
  const rewards: number[] = [];
  const [reasons, sums, totals] = [new Map<string, ReasonCount>(), new Map<string, Sum>(), createTotals()];
  let [masked, failed, hasBranches] = [0, 0, false];
  for (const row of rows) {
    if (row.outcome === "failed") {
      failed++;
      kinds.add(row.kind ?? "");
      countReason(reasons, row);
    }
    if (row.outcome === "masked") masked++;
    // Only scored rows count for the statistics, as in `holdfast metrics`.
    for (const [name, value] of row.outcome === "scored" ? Object.entries(row.metrics) : []) {
      const { sum, count } = sums.get(name) ?? { sum: 0, count: 0 };
      sums.set(name, { sum: sum + value, count: count + 1 });
    }
    totals.add(row);
    if (row.stopped !== null) stops.add(row.stopped);
    if (row.reward !== null) rewards.push(row.reward);
    if (row.branch !== null) hasBranches = true;
    if (tools.size < mostTools) for (const tool of row.tools) tools.add(tool);
  }
  const scores = tasks.map((task) => scoresOf(rows, task));
  const pass = passMetrics(scores);
  const isRate = areRates(scores);
  const names = toNames(isRate);
  const most = tasks.reduce((count, task) => Math.max(count, task.rows.length), 0);
  const curve = (name: (k: number) => string): Score[] => {
    const values = Array.from({ length: most }, (_, at) => pass[name(at + 1)]);
    return values.slice(0, values.findLastIndex((value) => value !== undefined) + 1);
  };
  return {
    rows: rows.length,
    scored: rewards.length,
    masked,
    failed,
    tokens,
    isEstimate: rows.some((row) => row.isEstimate),
    seconds,
    began: totals.result().began,
    wallSeconds: totals.result().wallSeconds,
    tasks,
    hasBranches,
    reasons: [...reasons.values()].sort((a, b) => b.count - a.count),
    metricNames: [...sums.keys()].sort((a, b) => (sums.get(b)?.count ?? 0) - (sums.get(a)?.count ?? 0)),
    metricMeans: new Map([...sums].map(([name, { sum, count }]) => [name, sum / count])),
    reward: rewards.length === 0 ? null : (total(rows, (row) => row.reward) ?? 0) / rewards.length,
    means: new Map(tasks.flatMap(({ task, reward }) => (reward === null ? [] : [[task, reward] as const]))),
    rewards: histogram(rewards),
    isRate,
    best: curve(names.best),
    worst: curve(names.worst),
    kinds: kinds.counts(),
    stops: stops.counts(),
    tools: [...tools].sort(),
  };
}

function countReason(reasons: Map<string, ReasonCount>, row: RowSummary): void {
  const [kind, reason] = [row.kind ?? "", row.reason ?? ""];
  const group = reasonGroup(reason);
  const key = `${kind}\n${group}`;
  const known = reasons.get(key);
  if (known) known.count++;
  else reasons.set(key, { kind, group, reason, count: 1 });
}

/** The scores in the order of the repeats, then of rewards. A row without a repeat number is sorted by its position. */
function scoresOf(rows: readonly RowSummary[], { rows: places }: TaskGroup): Score[] {
  const numbered = places.map((at, position) => {
    const { repeat, reward } = rows[at] as RowSummary;
    return { place: repeat ?? position, score: reward ?? undefined };
  });
  const byScore = (a: Score, b: Score): number => (a === b ? 0 : (a ?? -Infinity) < (b ?? -Infinity) ? -1 : 1);
  return numbered.sort((a, b) => a.place - b.place || byScore(a.score, b.score)).map(({ score }) => score);
}

function total(rows: readonly RowSummary[], value: (row: RowSummary) => number | null): number | null {
  let sum: number | null = null;
  for (const row of rows) {
    const given = value(row);
    if (given !== null) sum = (sum ?? 0) + given;
  }
  return sum;
}

/**
 * A bootstrap interval of the mean reward over tasks. It takes up to 0.5 s, so callers wait until all rows are loaded.
 */
export function rewardInterval(tasks: readonly TaskGroup[]): Interval | undefined {
  const scored = tasks.filter(({ scored }) => scored > 0);
  // For a single task the interval is a point, which says nothing.
  if (scored.length < 2) return undefined;
  const shares = scored.map(({ reward, scored }) => ({ over: [(reward ?? 0) * scored], under: [scored] }));
  return bootstrap(shares, 0)[0] ?? undefined;
}

/** The tokens and reward of each row, alternating; NaN if missing. */
export function tokensAndRewards(rows: readonly RowSummary[]): Float64Array {
  const pairs = new Float64Array(rows.length * 2);
  rows.forEach(({ tokens, reward }, at) => {
    pairs[at * 2] = tokens ?? NaN;
    pairs[at * 2 + 1] = reward ?? NaN;
  });
  return pairs;
}

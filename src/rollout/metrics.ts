// Metrics of finished rollouts: from verify responses to the statistics that a NeMo Gym collection asks for.
import { HoldfastError } from "../core/errors.ts";
import { setOwn, type Json } from "../core/json.ts";

export type Metrics = { [name: string]: number };

export interface AggregateMetrics {
  /** One for each task, in the order of their numbers. */
  group_level_metrics: { [name: string]: Json }[];
  /** Over all rollouts. */
  agent_metrics: Metrics;
  /** The means of those. */
  key_metrics: Metrics;
}

interface Rollout {
  task: number;
  index: number | undefined;
  columns: Map<string, number>;
}

const taskIndex = "_ng_task_index";
const rolloutIndex = "_ng_rollout_index";
/** More than any collection has, and few enough that nobody can keep a server busy with them. */
const mostColumns = 1_000;

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
  const rollouts = rows.filter(isObject).map(rolloutOf);
  const groups = new Map<number, Rollout[]>();
  for (const rollout of rollouts) {
    const group = groups.get(rollout.task);
    if (group) group.push(rollout);
    else groups.set(rollout.task, [rollout]);
  }
  const names = new Set<string>();
  for (const { columns } of rollouts) {
    for (const name of columns.keys()) names.add(name);
    if (names.size <= mostColumns) continue;
    throw new HoldfastError("invalid_input", `the rows have more than ${mostColumns} different fields with numbers`);
  }
  const agent = statistics(rollouts);
  const means = Object.entries(agent).filter(([name]) => name.startsWith("mean/"));
  return {
    group_level_metrics: [...groups].sort(([a], [b]) => a - b).map(([task, group]) => groupEntry(task, group)),
    agent_metrics: agent,
    key_metrics: Object.fromEntries(means),
  };
}

function groupEntry(task: number, group: Rollout[]): { [name: string]: Json } {
  return {
    [taskIndex]: task,
    ...statistics(group),
    sample: { agent_ref: { name: "agent" } },
    num_rollouts: group.length,
    // How many were planned is not told here: as many as came.
    expected_num_rollouts: group.length,
    missing_num_rollouts: 0,
    reward_profile_completion_pct: 100,
    rollout_infos: group.map(({ index: given, columns }, position) => {
      const index = given ?? position;
      const identity = { rollout_id: `${task}:${index}`, [taskIndex]: task, [rolloutIndex]: index };
      return { ...identity, ...fromPairs(columns) };
    }),
  };
}

function rolloutOf(row: Record<string, unknown>): Rollout {
  const columns = new Map<string, number>();
  const { response } = row;
  const usage = isObject(response) && isObject(response["usage"]) ? response["usage"] : {};
  for (const [name, value] of [...Object.entries(row), ...Object.entries(usage)]) {
    const number = typeof value === "boolean" ? Number(value) : value;
    if (typeof number === "number" && Number.isFinite(number)) columns.set(name, number || 0);
  }
  const [task = 0, index] = [columns.get(taskIndex), columns.get(rolloutIndex)];
  columns.delete(taskIndex);
  columns.delete(rolloutIndex);
  return { task, index, columns };
}

function statistics(rollouts: Rollout[]): Metrics {
  const columns = new Map<string, number[]>();
  for (const rollout of rollouts) {
    for (const [name, value] of rollout.columns) {
      const values = columns.get(name);
      if (values) values.push(value);
      else columns.set(name, [value]);
    }
  }
  const spreads = new Map([...columns].map(([name, values]) => [name, sampleStd(values)]));
  // 0 where nothing at all has a spread; where something has, a column without one is left out.
  if ([...spreads.values()].every((spread) => spread === undefined)) {
    for (const [name, values] of columns) if (values.length === rollouts.length) spreads.set(name, 0);
  }
  const by = (name: string, statistic: (values: number[]) => number | undefined): [string, number | undefined][] =>
    [...columns].map(([column, values]) => [`${name}/${column}`, statistic(values)]);
  return fromPairs([
    ...by("mean", mean),
    ...by("max", (values) => values.reduce((a, b) => Math.max(a, b))),
    ...by("min", (values) => values.reduce((a, b) => Math.min(a, b))),
    ...by("median", median),
    ...[...spreads].map(([column, spread]): [string, number | undefined] => [`std/${column}`, spread]),
  ]);
}

/**
 * How often one of k tries succeeds, in percent, from the scores of each task's rollouts: `pass@{k}`,
 * `pass@1[avg-of-{k}]`, and how much the latter differs between runs.
 *
 * @example
 * passMetrics([[1, 0], [0, 0]])["pass@2/accuracy"]; // 50
 */
export function passMetrics(tasks: number[][], score = "accuracy"): Metrics {
  const most = tasks.reduce((count, scores) => Math.max(count, scores.length), 0);
  const runs = Array.from({ length: most }, (_, run) => 100 * mean(tasks.flatMap((scores) => scores[run] ?? [])));
  const metrics: Metrics = {};
  for (let k = 1; k <= most; k++) {
    const passed = tasks.filter((scores) => scores.length >= k).map((scores) => passAt(k, scores));
    metrics[`pass@${k}/${score}`] = 100 * mean(passed);
    const average = `pass@1[avg-of-${k}]/${score}`;
    const tried = tasks.filter((scores) => scores.length > 0);
    metrics[average] = 100 * mean(tried.map((scores) => mean(scores.slice(0, k))));
    const spread = sampleStd(runs.slice(0, k));
    if (spread === undefined) continue;
    metrics[`${average}/std_dev_across_runs`] = spread;
    metrics[`${average}/std_err_across_runs`] = spread / Math.sqrt(k);
  }
  return metrics;
}

/** That at least one of k of these succeeded; of scores between 0 and 1, the best of the first k. */
function passAt(k: number, scores: number[]): number {
  if (scores.some((score) => score !== 0 && score !== 1)) return Math.max(...scores.slice(0, k));
  const wrong = scores.filter((score) => score === 0).length;
  // 1 - C(wrong, k) / C(all, k), factor by factor, so that neither grows too large.
  let allWrong = 1;
  for (let drawn = 0; drawn < k; drawn++) allWrong *= Math.max(0, wrong - drawn) / (scores.length - drawn);
  return 1 - allWrong;
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : mean(sorted.slice(middle - 1, middle + 1));
}

function sampleStd(values: number[]): number | undefined {
  if (values.length < 2) return undefined;
  const average = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - average) ** 2, 0) / (values.length - 1));
}

/** Without what JSON cannot say: -0, and sums of huge numbers that are infinite. */
function fromPairs(pairs: Iterable<readonly [string, number | undefined]>): Metrics {
  const metrics: Metrics = {};
  for (const [name, value] of pairs) {
    if (value !== undefined && Number.isFinite(value)) setOwn(metrics, name, value || 0);
  }
  return metrics;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

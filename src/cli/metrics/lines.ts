// Formats the metrics for one rollouts file as lines of text.
import type { FailureKind } from "../../core/rollout.ts";
import { binLines } from "../../rollout/metrics/histogram.ts";
import type { NodeMetrics } from "../../rollout/metrics/nodes.ts";
import type { Estimate, CollectionMetrics } from "../../rollout/metrics.ts";
import { counted, plainLine } from "../../io/plain.ts";
import { figure, tableLines } from "./table.ts";

const widest = 60;

/** The words for each kind of failure, as in "3 × model failed". "model 3" could be read as the number of a model. */
const kinds: Record<FailureKind, string> = {
  task: "invalid task",
  seed: "seed failed",
  model: "model failed",
  agent: "agent failed",
  tool: "tool failed",
  store: "store failed",
  verify: "verify failed",
  timeout: "time limit reached",
  worker: "worker process died",
  internal: "internal error",
};

/** Names a kind of failure. Files from other programs may have any string as the kind. */
export const kindText = (kind: string): string =>
  Object.hasOwn(kinds, kind) ? kinds[kind as FailureKind] : plainLine(kind);

export function metricLines(metrics: CollectionMetrics): string[] {
  const { estimates, histogram } = metrics;
  // The interval of a single task has no width, and means nothing.
  const hasInterval = metrics.tasks.filter(({ scored }) => scored > 0).length > 1;
  const rows = chosen(estimates).map(({ name, value, low, high }) => {
    const unit = name.startsWith("pass") ? "%" : "";
    const interval = hasInterval ? `${figure(low)}${unit} to ${figure(high)}${unit}` : "-";
    return [toLabel(name), `${figure(value)}${unit}`, interval];
  });
  return [
    ...(rows.length > 0 ? tableLines([["", "value", "95% interval"], ...rows]) : []),
    ...costLines(metrics),
    ...(histogram.length > 1 ? ["", "rewards", ...binLines(histogram, widest)] : []),
  ];
}

export function countLine({ rollouts, scored, masked, tasks, failures }: CollectionMetrics): string {
  const counts = `${counted(rollouts, "rollout")} of ${counted(tasks.length, "task")}, ${scored} scored`;
  const failed = failures.reduce((sum, { count }) => sum + count, 0);
  const reasons = failures.map(({ kind, count }) => `${count} × ${kindText(kind)}`).join(", ");
  return [
    counts,
    ...(masked > 0 ? [`${masked} masked`] : []),
    ...(failed > 0 ? [`${failed} failed (${reasons})`] : []),
  ].join(", ");
}

export function taskLines({ tasks }: CollectionMetrics): string[] {
  const columns = ["task", "rollouts", "scored", "mean", "min", "max", "std", "tokens", "seconds"] as const;
  return tableLines([[...columns], ...tasks.map((task) => columns.map((name) => figure(task[name])))]);
}

/** Lists the branches of all tasks together, or of each task. */
export function nodeLines(nodes: (NodeMetrics & { task?: number })[]): string[] {
  const hasTask = nodes.some(({ task }) => task !== undefined);
  const rows = nodes.map(({ task, node, rollouts, scored, mean }) => [
    ...(task === undefined ? [] : [figure(task)]),
    node || "all",
    ...[rollouts, scored, mean].map(figure),
  ]);
  return tableLines([[...(hasTask ? ["task"] : []), "branch", "rollouts", "scored", "mean"], ...rows]);
}

/** Lists every statistic under the name that it has in the metrics files. */
export function statisticLines({ agent_metrics, pass_metrics }: CollectionMetrics): string[] {
  const all = Object.entries({ ...agent_metrics, ...pass_metrics });
  return tableLines(all.map(([name, value]) => [name, figure(value)]));
}

/**
 * Selects the estimates to show: for k = 1, 2, 4 and so on, and for the largest k. A line for every k would say no
 * more. `best@1` and `worst@1` are omitted, because they equal the mean. Metrics from verify come last.
 */
function chosen(estimates: Estimate[]): Estimate[] {
  const toK = ({ name }: Estimate): number => Number(/@(\d+)\//.exec(name)?.[1] ?? 0);
  const most = estimates.reduce((largest, estimate) => Math.max(largest, toK(estimate)), 0);
  const isShown = (estimate: Estimate): boolean => {
    const k = toK(estimate);
    return (k > 1 || estimate.name.startsWith("pass")) && (k === most || Number.isInteger(Math.log2(k)));
  };
  return [
    ...estimates.filter(({ name }) => name === "mean/reward"),
    ...estimates.filter((estimate) => toK(estimate) > 0 && isShown(estimate)),
    ...estimates.filter(({ name }) => name.startsWith("mean/metrics.")),
  ];
}

function toLabel(name: string): string {
  if (name === "mean/reward") return "mean reward";
  return plainLine(name.replace(/^mean\/metrics\./, "mean ").replace(/(@\d+)\/.*$/, "$1"));
}

function costLines({ tokens, tokens_estimated, seconds, rollouts }: CollectionMetrics): string[] {
  const each = (total: number): string => `${figure(total / rollouts)} per rollout`;
  const parts = [
    ...(tokens_estimated ? ["estimated"] : []),
    ...(tokens.input === null ? [] : [`${figure(tokens.input)} in`]),
    ...(tokens.output === null ? [] : [`${figure(tokens.output)} out`]),
  ];
  const rows = [
    ...(tokens.total ? [["tokens", figure(tokens.total), [...parts, each(tokens.total)].join(", ")]] : []),
    ...(seconds === null ? [] : [["seconds", figure(seconds), `sum of all rollouts, ${each(seconds)}`]]),
  ];
  return rows.length === 0 ? [] : ["", ...rows.map(([name, total, rest]) => `${name} ${total} (${rest})`)];
}

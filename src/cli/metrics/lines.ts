// Formats the metrics for one rollouts file as lines of text.
import { binLines } from "../../rollout/metrics/histogram.ts";
import type { NodeMetrics, TaskNodeMetrics } from "../../rollout/metrics/nodes.ts";
import type { Estimate, CollectionMetrics } from "../../rollout/metrics.ts";
import { failuresText } from "../failures.ts";
import { counted, plainLine } from "../plain.ts";
import { figure, tableLines } from "./table.ts";

const widest = 60;

export function metricLines(metrics: CollectionMetrics): string[] {
  const { estimates, histogram } = metrics;
  const rows = chosen(estimates).map(({ name, value, low, high }) => {
    const unit = name.startsWith("pass") ? "%" : "";
    return [toLabel(name), `${figure(value)}${unit}`, `${figure(low)}${unit} to ${figure(high)}${unit}`];
  });
  return [
    ...(rows.length > 0 ? tableLines([["", "value", "95% interval"], ...rows]) : []),
    ...costLines(metrics),
    ...(histogram.length > 1 ? ["", "rewards", ...binLines(histogram, widest)] : []),
  ];
}

/** Counts the rollouts, and the failures by kind. */
export function countLine({ rollouts, scored, masked, tasks, failures }: CollectionMetrics): string {
  const counts = `${counted(rollouts, "rollout")} of ${counted(tasks.length, "task")}, ${scored} scored`;
  const failed = failures.reduce((sum, { count }) => sum + count, 0);
  return [
    counts,
    ...(masked > 0 ? [`${masked} masked`] : []),
    ...(failed > 0 ? [`${failed} failed (${failuresText(failures)})`] : []),
  ].join(", ");
}

export function taskLines({ tasks }: CollectionMetrics): string[] {
  const rows = tasks.map((task) => [
    task.task,
    task.rollouts,
    task.scored,
    task.mean,
    task.min,
    task.max,
    task.std,
    task.tokens,
    task.seconds,
  ]);
  const heading = ["task", "rollouts", "scored", "mean", "min", "max", "std", "tokens", "seconds"];
  return tableLines([heading, ...rows.map((row) => row.map(figure))]);
}

export function nodeLines(nodes: NodeMetrics[]): string[] {
  const rows = nodes.map(({ node, rollouts, scored, mean }) => [
    node || "all",
    ...[rollouts, scored, mean].map(figure),
  ]);
  return tableLines([["branch", "rollouts", "scored", "mean"], ...rows]);
}

export function taskNodeLines(nodes: TaskNodeMetrics[]): string[] {
  const rows = nodes.map(({ task, node, rollouts, scored, mean }) => [
    figure(task),
    node || "all",
    ...[rollouts, scored, mean].map(figure),
  ]);
  return tableLines([["task", "branch", "rollouts", "scored", "mean"], ...rows]);
}

/** Lists every statistic, by its name in the files. */
export function statisticLines({ agent_metrics, pass_metrics }: CollectionMetrics): string[] {
  const all = Object.entries({ ...agent_metrics, ...pass_metrics });
  return tableLines(all.map(([name, value]) => [name, figure(value)]));
}

/**
 * Selects k = 1, 2, 4 and so on, and the largest, because 64 lines would say no more. For one rollout, the best and the
 * worst equal the mean. Metrics from verify come last.
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
  const each = (total: number): string => `${figure(total / rollouts)} a rollout`;
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

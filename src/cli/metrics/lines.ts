// Formats the metrics of one file of rollouts as lines of text.
import { binLines } from "../../rollout/metrics/histogram.ts";
import type { NodeMetrics, TaskNodeMetrics } from "../../rollout/metrics/nodes.ts";
import type { Estimate, CollectionMetrics } from "../../rollout/metrics.ts";
import { counted } from "../plain.ts";
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
export function countLine({ rollouts, scored, tasks, failures }: CollectionMetrics): string {
  const lost = failures.map(({ kind, count }) => `${kind} ${count}`).join(", ");
  const counts = `${counted(rollouts, "rollout")} of ${counted(tasks.length, "task")}, ${scored} scored`;
  return lost === "" ? counts : `${counts}, ${rollouts - scored} failed (${lost})`;
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

/** Selects pass@k of 1, 2, 4 and so on, and of the largest k: 64 lines would tell no more. */
function chosen(estimates: Estimate[]): Estimate[] {
  return estimates.filter(({ name }, at) => {
    const k = Number(/^pass@(\d+)/.exec(name)?.[1] ?? 1);
    return at === estimates.length - 1 || Number.isInteger(Math.log2(k));
  });
}

function toLabel(name: string): string {
  return name === "mean/reward" ? "mean reward" : name.replace("/accuracy", "");
}

function costLines({ tokens, seconds, rollouts }: CollectionMetrics): string[] {
  const each = (total: number): string => `${figure(total / rollouts)} a rollout`;
  const parts = [
    ...(tokens.input === null ? [] : [`${figure(tokens.input)} in`]),
    ...(tokens.output === null ? [] : [`${figure(tokens.output)} out`]),
  ];
  const rows = [
    ...(tokens.total === null ? [] : [["tokens", figure(tokens.total), [...parts, each(tokens.total)].join(", ")]]),
    ...(seconds === null ? [] : [["seconds", figure(seconds), each(seconds)]]),
  ];
  return rows.length === 0 ? [] : ["", ...rows.map(([name, total, rest]) => `${name} ${total} (${rest})`)];
}

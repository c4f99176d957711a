// Reads rollouts files, and prints their metrics or their differences.
import { cannotLoad } from "../../core/errors.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { compareCollections, type Comparison } from "../../rollout/compare.ts";
import { finishedRollouts } from "../../rollout/finished.ts";
import { createMetrics, type CollectionMetrics } from "../../rollout/metrics.ts";
import { createNodes, createTaskNodes } from "../../rollout/metrics/nodes.ts";
import { outputPaths } from "../../rollout/output.ts";
import { readRecord } from "../../rollout/collection-record.ts";
import { createComplaints, note } from "../rollout-source.ts";
import { counted, print } from "../plain.ts";
import { countLine, metricLines, nodeLines, statisticLines, taskLines, taskNodeLines } from "./lines.ts";
import { figure, tableLines } from "./table.ts";

export interface MetricsFlags {
  over?: string;
  tasks?: boolean;
  byBranch?: boolean;
  all?: boolean;
  answerKey?: string;
  success?: number;
  seed: number;
  json?: boolean;
}

/** The maximum number of changed tasks to show. */
const mostChanged = 10;

export async function printMetrics(file: string, flags: MetricsFlags): Promise<void> {
  const [nodes, taskNodes] = [createNodes(), createTaskNodes()];
  const metrics = await readMetrics(file, flags, (row) => {
    if (flags.byBranch) nodes.add(row);
    if (flags.byBranch && flags.tasks) taskNodes.add(row);
  });
  const found = {
    ...(flags.byBranch && { nodes: nodes.result() }),
    ...(flags.byBranch && flags.tasks && { task_nodes: taskNodes.result() }),
  };
  if (flags.json) return print(JSON.stringify({ file, ...metrics, ...found }));
  printLines([
    `${file}: ${countLine(metrics)}`,
    "",
    ...metricLines(metrics),
    ...(flags.tasks ? ["", ...taskLines(metrics)] : []),
    ...(found.nodes ? ["", ...nodeLines(found.nodes)] : []),
    ...(found.task_nodes ? ["", ...taskNodeLines(found.task_nodes)] : []),
    ...(flags.all ? ["", ...statisticLines(metrics)] : []),
  ]);
}

export async function printComparison(files: [string, string], flags: MetricsFlags): Promise<void> {
  const [first, second] = [await readMetrics(files[0], flags), await readMetrics(files[1], flags)];
  if (isOfOtherTasks(files))
    note("the two files come from different files of tasks, so their task numbers may mean different tasks");
  const comparison = compareCollections(first, second, { seed: flags.seed });
  if (flags.json) return print(JSON.stringify({ files, first, second, comparison }));
  printLines([
    `first   ${files[0]}: ${countLine(first)}`,
    `second  ${files[1]}: ${countLine(second)}`,
    "",
    ...comparisonLines(comparison, flags),
    ...(flags.all ? ["", ...statisticsBeside(first, second)] : []),
  ]);
}

async function readMetrics(
  file: string,
  { answerKey, success, seed }: MetricsFlags,
  onRow?: (row: TaskRow) => void,
): Promise<CollectionMetrics> {
  let isRollouts = false;
  const metrics = createMetrics({ seed, answerKey, success });
  for await (const { row } of finishedRollouts(file, createComplaints())) {
    metrics.add(row);
    isRollouts ||= ["reward", "response", "failure_kind"].some((field) => field in row);
    onRow?.(row);
  }
  const result = metrics.result();
  if (result.rollouts === 0) throw cannotLoad(`${file} has no rollouts`);
  if (!isRollouts) {
    throw cannotLoad(`${file} has no rollouts: its rows have no reward and no response, as in a tasks file`);
  }
  return result;
}

function isOfOtherTasks(files: [string, string]): boolean {
  const [first, second] = files.map((file) => readRecord(outputPaths(file).run)?.settings["tasks"]);
  return first !== undefined && second !== undefined && first !== second;
}

function comparisonLines(comparison: Comparison, flags: MetricsFlags): string[] {
  const { tasks, difference, better, worse, same, changed, only_first, only_second } = comparison;
  const shown = flags.tasks ? changed : changed.slice(0, mostChanged);
  const rows = shown.map(({ task, first, second, difference }) => [
    String(task),
    figure(first),
    figure(second),
    signed(difference),
  ]);
  const more = changed.length - shown.length;
  return [
    `difference of the mean rewards (second - first) over ${counted(tasks, "task")}`,
    ...(difference ? [differenceLine(difference)] : ["too large for a number"]),
    `better ${better}, worse ${worse}, same ${same}`,
    ...(only_first.length > 0 ? [`${counted(only_first.length, "task")} with a reward only in the first`] : []),
    ...(only_second.length > 0 ? [`${counted(only_second.length, "task")} with a reward only in the second`] : []),
    ...(rows.length > 0 ? ["", ...tableLines([["task", "first", "second", "difference"], ...rows])] : []),
    ...(more > 0 ? [`and ${more} more; --tasks shows all`] : []),
  ];
}

function differenceLine({ value, low, high }: NonNullable<Comparison["difference"]>): string {
  const line = `${signed(value)} (95%: ${signed(low)} to ${signed(high)})`;
  return low <= 0 && high >= 0 && low < high ? `${line}: the interval contains 0, so this may be chance` : line;
}

function statisticsBeside(first: CollectionMetrics, second: CollectionMetrics): string[] {
  const [a, b] = [first, second].map(({ agent_metrics, pass_metrics }) => ({ ...agent_metrics, ...pass_metrics }));
  const names = new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})]);
  const rows = Array.from(names, (name) => [name, figure(a?.[name] ?? null), figure(b?.[name] ?? null)]);
  return tableLines([["", "first", "second"], ...rows]);
}

const signed = (value: number): string => (value > 0 ? `+${figure(value)}` : figure(value));

const printLines = (lines: string[]): void => print(lines.join("\n"));

// holdfast metrics: prints a rollouts file's metrics, compares two files, or shows a training run's curve.
import type { Command } from "commander";
import { finite, whole } from "./flags.ts";
import type { TaskRow } from "../core/rollout.ts";
import { compareCollections, type Comparison } from "../rollout/compare.ts";
import type { CollectionMetrics } from "../rollout/metrics.ts";
import { assertNoTrainerFile } from "../rollout/curve.ts";
import { areOfOtherTasks, readCollectionMetrics } from "../rollout/metrics-of-files.ts";
import { createNodes, createTaskNodes } from "../rollout/metrics/nodes.ts";
import { createComplaints, note } from "./notes.ts";
import { counted, print } from "../io/plain.ts";
import { printCurves } from "./metrics/curves.ts";
import { countLine, metricLines, nodeLines, statisticLines, taskLines } from "./metrics/lines.ts";
import { figure, tableLines } from "./metrics/table.ts";

const example = `
Examples:
  $ npx holdfast metrics runs/scripted.jsonl
  $ npx holdfast metrics runs/scripted.jsonl --success 0.9
  $ npx holdfast metrics runs/before.jsonl runs/after.jsonl
  $ npx holdfast metrics runs/training --over iteration

The table shows the mean reward, the metrics that verify returns, and pass@k. If
some rewards are neither 0 nor 1, it shows best@k and worst@k instead of pass@k.
With --success, it always shows pass@k.

Intervals are 95% bootstrap intervals over tasks. Failures are read from
FILE_failures.jsonl and have no reward. Two files are compared task by task. A
task needs a reward in both files, or it is ignored.

With --over LABEL, FILE may be a folder of collections, and the table has a line
for each value of the label. If a trainer wrote metrics.jsonl to the folder, the
table also shows its numbers to watch, such as dead_groups, entropy and seconds;
--all shows all its numbers. A narrow terminal shows fewer columns.
--over collection prints a line for each file.`;

export function add(program: Command): void {
  program
    .command("metrics")
    .description("Print the metrics of a rollout file, or compare two files.")
    .argument("<file>", "rollout file in JSON Lines format; with --over, also a folder of rollout files")
    .argument("[second]", "second file with rollouts of the same tasks, to compare with the first")
    .option("--over <label>", "print a line for each value of this row label, as in iteration")
    .option(
      "--success <reward>",
      "count a reward of at least this number as a success, and print pass@k",
      finite("Use a number, as in 0.9."),
    )
    .option("--tasks", "print a line for each task")
    .option("--by-branch", "print a line for each branch of forked episodes; with --tasks, separately for each task")
    .option("--all", "print every statistic of every number in the rows")
    .option("--answer-key <field>", "name of the field with the answer; adds majority@k to --all and --json")
    .option("--seed <number>", "random seed for the confidence intervals", whole(0), 0)
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(async (file: string, second: string | undefined, flags: Flags) => {
      if (flags.over !== undefined)
        return printCurves(second === undefined ? [file] : [file, second], flags.over, flags);
      await (second === undefined ? printMetrics(file, flags) : printComparison([file, second], flags));
    });
}

interface Flags {
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

async function printMetrics(file: string, flags: Flags): Promise<void> {
  const [nodes, taskNodes] = [createNodes(), createTaskNodes()];
  const metrics = await metricsIn(file, flags, (row) => {
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
    ...(found.task_nodes ? ["", ...nodeLines(found.task_nodes)] : []),
    ...(flags.all ? ["", ...statisticLines(metrics)] : []),
  ]);
}

async function printComparison(files: [string, string], flags: Flags): Promise<void> {
  const [first, second] = [await metricsIn(files[0], flags), await metricsIn(files[1], flags)];
  if (areOfOtherTasks(files))
    note("the two collections used different tasks files, so the same task number may mean different tasks");
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

async function metricsIn(file: string, { answerKey, success, seed }: Flags, onRow?: (row: TaskRow) => void) {
  await assertNoTrainerFile(file);
  return readCollectionMetrics(file, { seed, answerKey, success, onRow, onBad: createComplaints() });
}

function comparisonLines(comparison: Comparison, flags: Flags): string[] {
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
    `difference in mean reward (second - first) over ${counted(tasks, "task")}`,
    ...(difference
      ? [differenceLine(difference)]
      : ["the difference cannot be computed, because the rewards are too large"]),
    `better ${better}, worse ${worse}, same ${same}`,
    ...(only_first.length > 0 ? [`${counted(only_first.length, "task")} with a reward only in the first file`] : []),
    ...(only_second.length > 0 ? [`${counted(only_second.length, "task")} with a reward only in the second file`] : []),
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

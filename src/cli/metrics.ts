// holdfast metrics: prints the metrics of a file of rollouts, or compares two files.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import type { MetricsFlags } from "./metrics/command.ts";

const example = `
Examples:
  $ holdfast metrics runs/counter.jsonl
  $ holdfast metrics runs/before.jsonl runs/after.jsonl

Intervals are of 95%, by drawing tasks again. Failures are those in
FILE_failures.jsonl: they have no reward. With two files, tasks that have a
reward in both are compared one by one.`;

export function addMetrics(program: Command): void {
  program
    .command("metrics")
    .description("Print the figures of a file of rollouts, or compare two files.")
    .argument("<file>", "rows of rollouts, as JSON lines")
    .argument("[second]", "another file over the same tasks, to compare with the first")
    .option("--tasks", "a line for each task")
    .option(
      "--by-branch",
      "of one file: a line for each node of the trees that episodes were forked into; with --tasks, of each task too",
    )
    .option("--all", "every statistic of every number in the rows")
    .option("--answer-key <field>", "the field that holds the answer: adds majority@k to --all and --json")
    .option("--seed <number>", "of the intervals", whole(0), 0)
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(async (file: string, second: string | undefined, flags: MetricsFlags) => {
      const { printMetrics, printComparison } = await import("./metrics/command.ts");
      await (second === undefined ? printMetrics(file, flags) : printComparison([file, second], flags));
    });
}

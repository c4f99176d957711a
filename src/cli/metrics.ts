// holdfast metrics: prints a rollouts file's metrics, compares two files, or shows a training run's curve.
import type { Command } from "commander";
import { finite, whole } from "./flags.ts";
import type { MetricsFlags } from "./metrics/command.ts";

const example = `
Examples:
  $ npx holdfast metrics runs/scripted.jsonl
  $ npx holdfast metrics runs/scripted.jsonl --success 0.9
  $ npx holdfast metrics runs/before.jsonl runs/after.jsonl
  $ npx holdfast metrics runs/training --over iteration

The table has the mean reward, the metrics that verify returns, and pass@k. If
some rewards are neither 0 nor 1 it has best@k and worst@k in place of pass@k,
unless --success says which rewards count as a success.

Intervals are 95% bootstrap intervals over tasks. Failures are read from
FILE_failures.jsonl and have no reward. Two files are compared task by task,
over the tasks with a reward in both.

With --over, FILE may be a folder of collections. The table has a line for each
value of a label of the rows, and the loss and seconds in metrics.jsonl, which a
trainer writes there; --all prints all its numbers. --over collection prints a
line for each file.`;

export function addMetrics(program: Command): void {
  program
    .command("metrics")
    .description("Print the metrics of a file of rollouts, or compare two files.")
    .argument("<file>", "rows of rollouts, as JSON lines; with --over, also a folder of them")
    .argument("[second]", "another file over the same tasks, to compare with the first")
    .option("--over <label>", "print a line for each value of a label of the rows, as in iteration")
    .option(
      "--success <reward>",
      "count rewards of at least this as successes, and print pass@k",
      finite("Give a number, as in 0.9."),
    )
    .option("--tasks", "print a line for each task")
    .option("--by-branch", "print a line for each branch of forked episodes; with --tasks, for each task")
    .option("--all", "print every statistic of every number in the rows")
    .option("--answer-key <field>", "the field with the answer: adds majority@k to --all and --json")
    .option("--seed <number>", "random seed for the confidence intervals", whole(0), 0)
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(async (file: string, second: string | undefined, flags: MetricsFlags) => {
      if (flags.over !== undefined) {
        const { printCurves } = await import("./metrics/curves.ts");
        return printCurves(second === undefined ? [file] : [file, second], flags.over, flags);
      }
      const { printMetrics, printComparison } = await import("./metrics/command.ts");
      await (second === undefined ? printMetrics(file, flags) : printComparison([file, second], flags));
    });
}

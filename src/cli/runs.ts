// holdfast runs: lists the collections in a folder.
import type { Command } from "commander";

const example = `
Examples:
  $ npx holdfast runs
  $ npx holdfast runs experiments --json

Each line is read from the run record of a collection, NAME_run.json, so the
list is quick for large collections too. A collection that is still running, or
was killed, has no result yet.`;

export function addRuns(program: Command): void {
  program
    .command("runs")
    .description("List the collections of a folder: model or agent, tasks, mean reward, failures and date.")
    .argument("[folder]", "folder of collections", "runs")
    .option("--json", "print a line of JSON for each collection")
    .addHelpText("after", example)
    .action(async (folder: string, flags: { json?: boolean }) =>
      (await import("./runs/command.ts")).listRuns(folder, flags.json ?? false),
    );
}

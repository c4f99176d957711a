// holdfast replay: runs the calls of stored episodes again, and names the first event that differs.
import type { Command } from "commander";
import type { ReplayFlags } from "./replay/command.ts";

const example = `
Examples:
  $ npx holdfast replay runs/scripted.jsonl --environment .
  $ npx holdfast replay --store sqlite:runs/scripted.db \\
      --environment .

Seeds and calls are run again on nothing but the log; what external tools
answered is taken from it. Without a file, all sessions of the environment in
the store are replayed. The store is only read. The exit code is 1 if an episode
differs, or is not in the store.`;

export function addReplay(program: Command): void {
  program
    .command("replay")
    .description("Run the calls of stored episodes again, and name the first event of each that differs.")
    .argument("[file]", "rows of rollouts, as JSON lines")
    .requiredOption("--environment <target>", "a folder, file or package with the environment")
    .option("--store <url>", "where the sessions are; by default FILE with .db in place of .jsonl")
    .option("--json", "print a line of JSON for each episode")
    .addHelpText("after", example)
    .action(async (file: string | undefined, flags: ReplayFlags) => {
      const { runReplay } = await import("./replay/command.ts");
      await runReplay(file, flags);
    });
}

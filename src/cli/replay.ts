// holdfast replay: runs stored episodes' calls again, and names the first event that differs.
import type { Command } from "commander";
import type { ReplayFlags } from "./replay/command.ts";
import { requiredOption } from "./help.ts";

const example = `
Examples:
  $ npx holdfast replay runs/scripted.jsonl --environment .
  $ npx holdfast replay --store sqlite:runs/scripted.db --environment .

Seeds and calls run again from the log alone; the results of external tools are
taken from it. Without a file, all sessions of the environment in the store are
replayed. The store is only read. The exit code is 1 if an episode differs or is
missing in the store.`;

export function addReplay(program: Command): void {
  program
    .command("replay")
    .description("Run the calls of stored episodes again, and name the first event of each that differs.")
    .argument("[file]", "file of rollouts, as JSON lines")
    .addOption(requiredOption("--environment <target>", "folder, file or package of the environment"))
    .option(
      "--store <url>",
      "store of the sessions (default: as in the run record, or FILE with .db in place of .jsonl)",
    )
    .option("--json", "print a line of JSON for each episode")
    .addHelpText("after", example)
    .action(async (file: string | undefined, flags: ReplayFlags) =>
      (await import("./replay/command.ts")).runReplay(file, flags),
    );
}

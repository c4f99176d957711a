// holdfast reverify: computes collected episodes' rewards again, with the current verifier.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import type { ReverifyFlags } from "./reverify/command.ts";

const example = `
Examples:
  $ npx holdfast reverify runs/scripted.jsonl --environment . \\
      --out runs/again.jsonl
  $ npx holdfast reverify runs/scripted.jsonl --environment . --every-step \\
      --out runs/steps.jsonl

Each episode is judged in its last state, on a copy: the store is only read.
Failures of verify are judged again. Other failures are copied to
OUT_failures.jsonl. With --every-step a row has step_rewards: a reward for each
version that changed the state. OUT appears when all episodes are judged; an
interrupted command leaves no OUT. The exit code is 1 if an episode could not be
judged.`;

export function addReverify(program: Command): void {
  program
    .command("reverify")
    .description("Compute rewards again from stored sessions, with the current verify of the environment.")
    .argument("<file>", "file of rollouts, as JSON lines")
    .addOption(requiredOption("--environment <target>", "folder, file or package of the environment"))
    .addOption(requiredOption("--out <file>", "file for the rows with the new rewards"))
    .option(
      "--store <url>",
      "store of the sessions (default: as in the run record, or FILE with .db in place of .jsonl)",
    )
    .option("--every-step", "also compute a reward for every version that changed the state")
    .option("--concurrency <number>", "episodes at once", whole(1, 10_000), 16)
    .option("--force", "overwrite existing files")
    .option("--json", "print the result as JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ReverifyFlags) =>
      (await import("./reverify/command.ts")).runReverify(file, flags),
    );
}

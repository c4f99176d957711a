// holdfast reverify: computes the rewards of collected episodes again, with the current verifier.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import type { ReverifyFlags } from "./reverify/command.ts";

const example = `
Examples:
  $ npx holdfast reverify runs/scripted.jsonl --environment . \\
      --out runs/scripted_again.jsonl
  $ npx holdfast reverify runs/scripted.jsonl --environment . \\
      --every-step --out runs/scripted_steps.jsonl

Each episode is judged as its session was left, on a copy: the store is only
read. What failed in the verifier before is judged too; other failures are
copied to OUT_failures.jsonl. With --every-step a row has step_rewards, a reward
for each version that changed the state. OUT is there once all were judged: what
is cut short leaves none, and is run again from the start. The exit code is 1 if
an episode could not be judged.`;

export function addReverify(program: Command): void {
  program
    .command("reverify")
    .description("Compute rewards again from stored sessions, with the environment's verifier as it is now.")
    .argument("<file>", "rows of rollouts, as JSON lines")
    .requiredOption("--environment <target>", "a folder, file or package with the environment")
    .requiredOption("--out <file>", "where the rows with the new rewards go")
    .option("--store <url>", "where the sessions are; by default FILE with .db in place of .jsonl")
    .option("--every-step", "also a reward for every version that changed the state")
    .option("--concurrency <number>", "how many episodes at once", whole(1, 10_000), 16)
    .option("--force", "write over what is there")
    .option("--json", "print what was done as JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ReverifyFlags) => {
      const { runReverify } = await import("./reverify/command.ts");
      await runReverify(file, flags);
    });
}

// holdfast show: prints one episode of a file of rollouts as a transcript.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import type { ShowFlags } from "./show/command.ts";

const example = `
Examples:
  $ holdfast show runs/counter.jsonl --task 3 --repeat 1
  $ holdfast show runs/counter.jsonl --task 3 --store sqlite:sessions.db

What a call changed in the state is read from the session in the store, by
default FILE with .db in place of .jsonl. Control characters are shown as
\\u001b. Colour is for terminals, unless NO_COLOR is set.`;

export function addShow(program: Command): void {
  program
    .command("show")
    .description("Print an episode: who said what, what was called, what came back, and what the state was after it.")
    .argument("<file>", "rows of rollouts, as JSON lines")
    .requiredOption("--task <number>", "the task", whole(0))
    .option("--repeat <number>", "which of its rollouts; by default the first", whole(0))
    .option("--store <url>", "where the sessions are, as in sqlite:FILE")
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ShowFlags) => {
      const { showRollout } = await import("./show/command.ts");
      await showRollout(file, flags);
    });
}

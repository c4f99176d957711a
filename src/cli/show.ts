// holdfast show: prints one episode from a rollouts file as a transcript.
import type { Command } from "commander";
import { whole } from "./flags.ts";
import type { ShowFlags } from "./show/command.ts";

const example = `
Examples:
  $ npx holdfast show runs/scripted.jsonl
  $ npx holdfast show runs/scripted.jsonl --task 3 --repeat 1
  $ npx holdfast show runs/scripted.jsonl --failed
  $ npx holdfast show runs/scripted.jsonl --worst

State changes, log lines and stacks are read from the session. Its store is the
one in the run record, FILE with .db in place of .jsonl, or --store. Control
characters are shown as \\u001b. Colours are for terminals without NO_COLOR.`;

export function addShow(program: Command): void {
  program
    .command("show")
    .description("Print an episode: messages, tool calls with their results, and the state after each call.")
    .argument("<file>", "file of rollouts, as JSON lines")
    .option("--task <number>", "a task (default: the first)", whole(0))
    .option("--repeat <number>", "a rollout of the task (default: the first)", whole(0))
    .option("--failed", "the first failed rollout")
    .option("--worst", "the rollout with the lowest reward")
    .option("--store <url>", "store of the sessions, as in sqlite:FILE")
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ShowFlags) => (await import("./show/command.ts")).showRollout(file, flags));
}

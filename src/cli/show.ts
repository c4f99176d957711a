// holdfast show: prints one episode from a rollouts file as a transcript.
import type { Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { whole } from "./flags.ts";
import { buildTranscript, findRollout, readRolloutLog, type RolloutChoice } from "../rollout/show.ts";
import { createComplaints, note } from "./notes.ts";
import { transcriptText } from "./show/text.ts";

const example = `
Examples:
  $ npx holdfast show runs/scripted.jsonl
  $ npx holdfast show runs/scripted.jsonl --task 3 --repeat 1
  $ npx holdfast show runs/scripted.jsonl --failed
  $ npx holdfast show runs/scripted.jsonl --worst

State changes, log lines and stack traces come from the session store: --store,
the store in the run record, or FILE with .db instead of .jsonl. Control
characters are escaped, as in \\u001b. In a terminal, the output has colours
unless NO_COLOR is set.`;

export function add(program: Command): void {
  program
    .command("show")
    .description("Print an episode: messages, tool calls with their results, and the state after each call.")
    .argument("<file>", "rollout file in JSON Lines format")
    .option("--task <number>", "task number (default: the first task)", whole(0))
    .option("--repeat <number>", "repeat number of the task (default: the first)", whole(0))
    .option("--failed", "show the first failed rollout")
    .option("--worst", "show the rollout with the lowest reward")
    .option("--store <url>", "session store, as in sqlite:FILE")
    .option("--json", "print JSON")
    .addHelpText("after", example)
    .action(show);
}

interface Flags extends RolloutChoice {
  store?: string;
  json?: boolean;
}

async function show(file: string, flags: Flags): Promise<void> {
  if (flags.failed && flags.worst)
    throw invalidOption("pass --failed or --worst, not both: a failed rollout has no reward");
  const row = await findRollout(file, flags, createComplaints());
  const transcript = buildTranscript(row, await readRolloutLog(file, row, flags.store, note));
  const { stdout, env } = process;
  const isColoured = stdout.isTTY && !env["NO_COLOR"];
  stdout.write(flags.json ? `${JSON.stringify(transcript)}\n` : transcriptText(transcript, isColoured));
}

// holdfast export: writes rollouts in formats for trainers.
import { statSync } from "node:fs";
import type { Command } from "commander";
import { finite } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { cannotLoad } from "../core/errors.ts";
import { assertRollouts } from "../rollout/collection-index.ts";
import { exportRollouts } from "../rollout/export.ts";
import { assertFree, writeOutputs } from "../rollout/line-output.ts";
import { createComplaints, note } from "./notes.ts";

const example = `
Examples:
  $ npx holdfast export runs/scripted.jsonl --format sft --out sft.jsonl
  $ npx holdfast export runs/scripted.jsonl --format grpo | head -1

  chat  every scored rollout as { messages, tools, reward } in chat API format
  sft   like chat, but only rollouts with a reward of at least --min-reward
  grpo  per task { prompt, tools, rewards, advantages, mean, std, rollouts }
Failed and masked rollouts are skipped. Token ids and log-probabilities stay on
the assistant message. Rows without _ng_task_index are grouped by prompt.`;

export function add(program: Command): void {
  program
    .command("export")
    .description("Write rollouts as message lists, fine-tuning rows, or groups with advantages.")
    .argument("<file>", "rollout file in JSON Lines format")
    .addOption(requiredOption("--format <name>", "chat, sft or grpo").choices(["chat", "sft", "grpo"]))
    .option("--out <file>", "output file (default: standard output)")
    .option("--min-reward <number>", "minimum reward of a rollout, for --format sft", finite("Use a number."), 1)
    .option("--force", "overwrite an existing file")
    .option("--json", "print the result as JSON")
    .addHelpText("after", example)
    .action(run);
}

interface Flags {
  format: "chat" | "sft" | "grpo";
  out?: string;
  minReward: number;
  force?: boolean;
  json?: boolean;
}

async function run(file: string, flags: Flags): Promise<void> {
  const { format, minReward, out } = flags;
  assertFree([out], file, flags);
  const counts = { rollouts: 0, left_out: 0, lines: 0 };
  await writeOutputs([out], async (output) => {
    const options = { format, minReward, onBad: createComplaints() };
    for await (const line of exportRollouts(file, options, counts)) await output.write(JSON.stringify(line));
    if (counts.rollouts === 0 && statSync(file).isFile()) await assertRollouts(file);
    if (counts.rollouts + counts.left_out === 0) throw cannotLoad(`${file} has no rollouts`);
  });
  const about = `${counts.rollouts} rollouts exported in ${counts.lines} lines, ${counts.left_out} skipped`;
  if (out === undefined) note(flags.json ? JSON.stringify(counts) : about);
  else process.stdout.write(flags.json ? `${JSON.stringify({ file: out, ...counts })}\n` : `${out}: ${about}\n`);
}

// holdfast export: writes rollouts in formats for trainers.
import { Option, type Command } from "commander";
import type { ExportFlags } from "./export/command.ts";
import { finite } from "./flags.ts";

const example = `
Examples:
  $ npx holdfast export runs/scripted.jsonl --format sft --out sft.jsonl
  $ npx holdfast export runs/scripted.jsonl --format grpo | head -1

  chat  every scored rollout as { messages, tools, reward }, for the chat API
  sft   the same, for rollouts with a reward of at least --min-reward
  grpo  per task { prompt, tools, rewards, advantages, mean, std, rollouts }
Failed and masked rollouts are left out. Token ids and log-probabilities stay on
the message of their answer. Rows without _ng_task_index are grouped by prompt.`;

export function addExport(program: Command): void {
  program
    .command("export")
    .description("Write rollouts as message lists, fine-tuning rows, or groups with advantages.")
    .argument("<file>", "file of rollouts, as JSON lines")
    .addOption(
      new Option("--format <name>", "chat, sft or grpo").choices(["chat", "sft", "grpo"]).makeOptionMandatory(),
    )
    .option("--out <file>", "file for the lines (default: print them)")
    .option("--min-reward <number>", "least reward of a rollout, with --format sft", finite("Give a number."), 1)
    .option("--force", "overwrite an existing file")
    .option("--json", "print the result as JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ExportFlags) => (await import("./export/command.ts")).runExport(file, flags));
}

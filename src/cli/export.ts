// holdfast export: writes rollouts in formats for trainers.
import { Option, type Command } from "commander";
import type { ExportFlags } from "./export/command.ts";
import { finite } from "./flags.ts";

const example = `
Examples:
  $ npx holdfast export runs/scripted.jsonl --format sft --out sft.jsonl
  $ npx holdfast export runs/scripted.jsonl --format grpo | head -1

  chat  every scored rollout as { messages, tools, reward }, for the chat API
  sft   the same, of rollouts with a reward of at least --min-reward
  grpo  per task { prompt, tools, rewards, advantages, mean, std, rollouts }
Failed and masked rollouts are left out. Token ids and log-probabilities stay on
the message that they belong to.`;

export function addExport(program: Command): void {
  program
    .command("export")
    .description("Write rollouts as message lists, fine-tuning rows, or groups with advantages.")
    .argument("<file>", "rows of rollouts, as JSON lines")
    .addOption(
      new Option("--format <name>", "chat, sft or grpo").choices(["chat", "sft", "grpo"]).makeOptionMandatory(),
    )
    .option("--out <file>", "where it goes, as JSON lines; by default it is printed")
    .option("--min-reward <number>", "of sft: what a rollout must have earned", finite("It is a number."), 1)
    .option("--force", "write over what is there")
    .option("--json", "print what was done as JSON")
    .addHelpText("after", example)
    .action(async (file: string, flags: ExportFlags) => {
      const { runExport } = await import("./export/command.ts");
      await runExport(file, flags);
    });
}

// holdfast queue: shows a queue and its workers, and clears collections without a collector.
import type { Command } from "commander";
import { requiredOption } from "./help.ts";

const examples = {
  status: `
Examples:
  $ npx holdfast queue status --queue redis://127.0.0.1:6379
  $ npx holdfast queue status --queue redis://127.0.0.1:6379 --json`,
  clear: `
Example:
  $ npx holdfast queue clear --queue redis://127.0.0.1:6379 --yes

Rollouts that a worker is playing stay, and so do collections whose collector is
running. Sessions stay in their store, so collect --resume can continue them.`,
};

interface Flags {
  queue: string;
  yes?: boolean;
  json?: boolean;
}

export function addQueue(program: Command): void {
  const queue = program
    .command("queue")
    .description("Show a queue of rollouts, and clear abandoned collections.")
    .addHelpText("after", "\nExample:\n  $ npx holdfast queue status --queue redis://127.0.0.1:6379");
  const add = (name: keyof typeof examples, description: string): Command =>
    queue
      .command(name)
      .description(description)
      .addOption(requiredOption("--queue <url>", "queue of the rollouts: redis://HOST"))
      .option("--json", "print JSON")
      .addHelpText("after", examples[name]);

  add("status", "Show the collections in a queue, and its workers.").action(
    async ({ queue: url, json = false }: Flags) => {
      const { printStatus } = await import("./queue/command.ts");
      await printStatus(url, json);
    },
  );
  add("clear", "Show collections without a collector, and with --yes remove them.")
    .option("--yes", "remove them")
    .action(async ({ queue: url, yes = false, json = false }: Flags) => {
      const { clear } = await import("./queue/command.ts");
      await clear(url, yes, json);
    });
}

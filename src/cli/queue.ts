// holdfast queue: what is in a queue, and who takes part.
import type { Command } from "commander";

const example = `
Examples:
  $ holdfast queue status --queue redis://127.0.0.1:6379
  $ holdfast queue status --queue redis://127.0.0.1:6379 --json`;

export function addQueue(program: Command): void {
  const queue = program.command("queue").description("Look at a queue of rollouts.");
  queue
    .command("status")
    .description("Show what is in a queue, by collection, and the workers that take part.")
    .requiredOption("--queue <url>", "where the rollouts are: redis://HOST")
    .option("--json", "print it as JSON")
    .addHelpText("after", example)
    .action(async ({ queue: url, json = false }: { queue: string; json?: boolean }) => {
      const { printStatus } = await import("./queue/status.ts");
      await printStatus(url, json);
    });
}

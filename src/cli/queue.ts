// holdfast queue: shows a queue and its workers, and clears collections without a collector.
import type { Command } from "commander";

const examples = {
  status: `
Examples:
  $ npx holdfast queue status --queue redis://127.0.0.1:6379
  $ npx holdfast queue status --queue redis://127.0.0.1:6379 --json`,
  clear: `
Example:
  $ npx holdfast queue clear --queue redis://127.0.0.1:6379 --yes

What a worker is playing stays, and so does all of a collection whose collector
runs. Sessions stay in their store: collect --resume still goes on from them.`,
};

interface Flags {
  queue: string;
  yes?: boolean;
  json?: boolean;
}

export function addQueue(program: Command): void {
  const queue = program
    .command("queue")
    .description("Look at a queue of rollouts, and clear it of what was left behind.")
    .addHelpText("after", "\nExample:\n  $ npx holdfast queue status --queue redis://127.0.0.1:6379");
  const add = (name: keyof typeof examples, description: string): Command =>
    queue
      .command(name)
      .description(description)
      .requiredOption("--queue <url>", "where the rollouts are: redis://HOST")
      .option("--json", "print it as JSON")
      .addHelpText("after", examples[name]);

  add("status", "Show what is in a queue, by collection, and the workers that take part.").action(
    async ({ queue: url, json = false }: Flags) => {
      const { printStatus } = await import("./queue/command.ts");
      await printStatus(url, json);
    },
  );
  add("clear", "Show what no collector waits for any more, and with --yes remove it.")
    .option("--yes", "remove it")
    .action(async ({ queue: url, yes = false, json = false }: Flags) => {
      const { clear } = await import("./queue/command.ts");
      await clear(url, yes, json);
    });
}

// holdfast worker: plays the rollouts that collections have put into a queue.
import type { Command } from "commander";
import { duration, whole } from "./flags.ts";
import type { WorkerFlags } from "./worker/command.ts";
import { endProcess } from "../telemetry/process.ts";

const example = `
Examples:
  $ npx holdfast worker --queue redis://127.0.0.1:6379
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --concurrency 200
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --workers 4

Start as many as you like, on as many machines, in a folder where the
collector's environment has the same path. What a worker has not ended when it
is stopped or killed, another one goes on with. Ctrl-C puts back what is not
over in a moment.`;

export function addWorker(program: Command): void {
  program
    .command("worker")
    .description("Play the rollouts that `holdfast collect --queue` hands out.")
    .requiredOption("--queue <url>", "where the rollouts are: redis://HOST")
    .option("--concurrency <number>", "how many episodes at once", whole(1, 100_000), 32)
    .option("--workers <number>", "worker processes to run; one that dies is replaced", whole(1, 1024))
    .option("--store <url>", "where sessions live, if this worker reaches the store by another URL than the collector")
    .option("--max-crashes <number>", "how often a rollout may end its own process before it fails", whole(1, 100), 3)
    .option("--max-blocked <duration>", "how long code may block a process; by default 10s", duration, 10_000)
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (flags: WorkerFlags) => {
      const { runWorker } = await import("./worker/command.ts");
      await runWorker(flags);
      await endProcess(0);
    });
}

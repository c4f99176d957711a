// holdfast worker: plays the rollouts that collections have put into a queue.
import type { Command } from "commander";
import { duration, whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import type { WorkerFlags } from "./worker/command.ts";
import { endProcess } from "../telemetry/process.ts";

const example = `
Examples:
  $ npx holdfast worker --queue redis://127.0.0.1:6379
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --concurrency 200
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --workers 4

Start any number of workers on any number of machines, in a folder where the
collector's environment has the same path. If a worker is stopped or killed,
another one continues its rollouts. Ctrl-C puts unfinished rollouts back into
the queue.`;

export function addWorker(program: Command): void {
  program
    .command("worker")
    .description("Play the rollouts that `holdfast collect --queue` and `holdfast serve --queue` hand out.")
    .addOption(requiredOption("--queue <url>", "queue of the rollouts: redis://HOST"))
    .option("--concurrency <number>", "episodes at once", whole(1, 100_000), 32)
    .option("--workers <number>", "worker processes to run; one that dies is replaced", whole(1, 1024))
    .option("--store <url>", "store of the sessions, if this worker reaches it by another URL than the collector")
    .option("--allow-model <url...>", "models that rollout requests may name, beside those on this machine")
    .option("--max-crashes <number>", "how often a rollout may crash its process before it fails", whole(1, 100), 3)
    .option("--max-blocked <duration>", "how long code may block a process", duration, 10_000)
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (flags: WorkerFlags) => {
      const { runWorker } = await import("./worker/command.ts");
      await runWorker(flags);
      await endProcess(0);
    });
}

// holdfast queue: shows a queue and its workers, and clears collections without a collector.
import type { Command } from "commander";
import { requiredOption } from "./help.ts";
import { queueAddress } from "../queue/connection.ts";
import { clearQueue, queueStatus, type Cleared, type CollectionStatus } from "../queue/survey.ts";
import type { QueueStatus, WorkerStatus } from "../queue/survey.ts";
import { counted, plainLine, print } from "../io/plain.ts";

const examples = {
  status: `
Examples:
  $ npx holdfast queue status --queue redis://127.0.0.1:6379
  $ npx holdfast queue status --queue redis://127.0.0.1:6379 --json`,
  clear: `
Example:
  $ npx holdfast queue clear --queue redis://127.0.0.1:6379 --yes

The command keeps rollouts that a worker is running, and collections whose
collector is running. It deletes no sessions, so collect --resume can continue.`,
};

interface Flags {
  queue: string;
  yes?: boolean;
  json?: boolean;
}

export function add(program: Command): void {
  const queue = program
    .command("queue")
    .description("Show a rollout queue, or clear its abandoned collections.")
    .addHelpText("after", "\nExample:\n  $ npx holdfast queue status --queue redis://127.0.0.1:6379");
  const add = (name: keyof typeof examples, description: string): Command =>
    queue
      .command(name)
      .description(description)
      .addOption(requiredOption("--queue <url>", "rollout queue: redis://HOST"))
      .option("--json", "print JSON")
      .addHelpText("after", examples[name]);

  add("status", "Show the collections and workers of a queue.").action(printStatus);
  add("clear", "Show abandoned collections, which have no collector. With --yes, remove them.")
    .option("--yes", "remove them")
    .action(clear);
}

async function printStatus({ queue, json }: Flags): Promise<void> {
  const address = queueAddress(queue);
  const status = await queueStatus(address);
  print(json ? JSON.stringify(status) : statusText(status, address.typed, Date.now()));
}

async function clear({ queue, yes = false, json }: Flags): Promise<void> {
  const cleared = await clearQueue(queueAddress(queue), yes);
  print(json ? JSON.stringify(cleared) : clearedText(cleared, yes));
}

function statusText({ queue, collections, workers }: QueueStatus, typed: string, now: number): string {
  const lines = [
    collections.length === 0
      ? `the queue at ${queue} is empty`
      : `${counted(collections.length, "collection")} in the queue at ${queue}`,
    ...collections.flatMap(collectionLines),
    "",
    workers.length === 0
      ? `no worker is running; start one with: npx holdfast worker --queue ${typed}`
      : `${counted(workers.length, "worker")}, ${workers.reduce((sum, { concurrency }) => sum + concurrency, 0)} episodes at a time`,
    ...workers.map((worker) => workerLine(worker, now)),
  ];
  return lines.join("\n");
}

function clearedText({ queue, collections, removed }: Cleared, remove: boolean): string {
  if (collections.length === 0) return `the queue at ${queue} has no abandoned collections`;
  const lines = [
    `${counted(collections.length, "abandoned collection")} in the queue at ${queue} (no collector waits for the results)`,
    ...collections.flatMap(collectionLines),
    "",
    remove
      ? `removed ${counted(removed, "rollout")}`
      : "nothing was removed; --yes removes all rollouts that no worker is running",
  ];
  const found = collections.reduce((sum, { waiting, active, delayed, finished, failed }) => {
    return sum + waiting + active + delayed + finished + failed;
  }, 0);
  if (remove && removed < found) lines.push("rollouts that a worker is running were kept; clear again after they end");
  return lines.join("\n");
}

function collectionLines({ title, collector, trouble, stalled, ...counts }: CollectionStatus): string[] {
  const { waiting, active, delayed, finished, failed } = counts;
  const parts = [
    `${waiting} waiting`,
    stalled > 0 ? `${active} active (${stalled} on workers that stopped responding)` : `${active} active`,
    delayed > 0 && `${delayed} returned to the queue`,
    `${finished} finished but not yet collected`,
    failed > 0 && `${failed} failed`,
    !collector && "no collector waits for the results",
  ];
  // Control characters are escaped, because any program can write to the queue.
  const what = trouble?.type === "crashed" ? "retried by" : "returned by";
  const why = trouble ? [plainLine(`    ${what} ${trouble.worker}: ${trouble.reason}`)] : [];
  return [plainLine(`  ${title}`), `    ${parts.filter(Boolean).join(", ")}`, ...why];
}

/** Seconds without a heartbeat after which a worker loses its rollouts. */
const quiet = 6;

function workerLine({ host, pid, since, silent, concurrency, active }: WorkerStatus, now: number): string {
  const line = `  ${host}:${pid}  ${active} of ${concurrency} active, for ${ageText(now - Date.parse(since))}`;
  return silent > quiet ? `${line}; silent for ${ageText(silent * 1000)}` : line;
}

function ageText(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

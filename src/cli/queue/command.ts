// Prints a queue's state, and removes collections without a collector.
import { queueAddress } from "../../queue/connection.ts";
import { clearQueue, type Cleared } from "../../queue/survey.ts";
import { queueStatus, type QueueStatus, type WorkerStatus } from "../../queue/survey.ts";
import type { CollectionStatus } from "../../queue/survey.ts";
import { counted, plainLine, print } from "../plain.ts";

export async function printStatus(url: string, json: boolean): Promise<void> {
  const address = queueAddress(url);
  const status = await queueStatus(address);
  print(json ? JSON.stringify(status) : statusText(status, address.typed, Date.now()));
}

export async function clear(url: string, remove: boolean, json: boolean): Promise<void> {
  const cleared = await clearQueue(queueAddress(url), remove);
  print(json ? JSON.stringify(cleared) : clearedText(cleared, remove));
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
      : `${counted(workers.length, "worker")}, ${workers.reduce((sum, { concurrency }) => sum + concurrency, 0)} at once`,
    ...workers.map((worker) => workerLine(worker, now)),
  ];
  return lines.join("\n");
}

function clearedText({ queue, collections, removed }: Cleared, remove: boolean): string {
  if (collections.length === 0) return `the queue at ${queue} has no abandoned collections`;
  const lines = [
    `no collector waits for ${counted(collections.length, "collection")} in the queue at ${queue}`,
    ...collections.flatMap(collectionLines),
    "",
    remove
      ? `removed ${counted(removed, "rollout")}`
      : "nothing was removed; --yes removes all rollouts that no worker is playing",
  ];
  const found = collections.reduce((sum, { waiting, active, delayed, finished, failed }) => {
    return sum + waiting + active + delayed + finished + failed;
  }, 0);
  if (remove && removed < found) lines.push("rollouts that workers are playing stay; clear again when they have ended");
  return lines.join("\n");
}

function collectionLines({ title, collector, trouble, stalled, ...counts }: CollectionStatus): string[] {
  const { waiting, active, delayed, finished, failed } = counts;
  const parts = [
    `${waiting} waiting`,
    stalled > 0 ? `${active} active (${stalled} of silent workers)` : `${active} active`,
    delayed > 0 && `${delayed} put back`,
    `${finished} finished and not collected`,
    failed > 0 && `${failed} failed`,
    !collector && "no collector waits for them",
  ];
  // Anyone may have put text into the queue.
  const what = trouble?.type === "crashed" ? "played again by" : "put back by";
  const why = trouble ? [plainLine(`    ${what} ${trouble.worker}: ${trouble.reason}`)] : [];
  return [plainLine(`  ${title}`), `    ${parts.filter(Boolean).join(", ")}`, ...why];
}

/** Seconds of silence after which a worker loses its rollouts. */
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

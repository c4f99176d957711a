// Prints the state of a queue.
import { queueStatus, type CollectionStatus, type QueueStatus, type WorkerStatus } from "../../queue/status.ts";
import { queueAddress } from "../queue-address.ts";

export async function printStatus(url: string, json: boolean): Promise<void> {
  const status = await queueStatus(queueAddress(url));
  process.stdout.write(json ? `${JSON.stringify(status)}\n` : textOf(status, Date.now()));
}

/** For people. */
function textOf({ queue, collections, workers }: QueueStatus, now: number): string {
  const lines = [
    collections.length === 0
      ? `nothing is in the queue at ${queue}`
      : `${counted(collections.length, "collection")} in the queue at ${queue}`,
    ...collections.flatMap(collectionLines),
    "",
    workers.length === 0
      ? `no worker takes part; start some with: holdfast worker --queue ${queue}`
      : `${counted(workers.length, "worker")}, ${workers.reduce((sum, { concurrency }) => sum + concurrency, 0)} at once`,
    ...workers.map((worker) => workerLine(worker, now)),
  ];
  return `${lines.join("\n")}\n`;
}

function collectionLines({ title, trouble, stalled, ...counts }: CollectionStatus): string[] {
  const { waiting, active, delayed, finished, failed } = counts;
  const parts = [
    `${waiting} waiting`,
    stalled > 0 ? `${active} active (${stalled} of a worker that is not heard of)` : `${active} active`,
    delayed > 0 && `${delayed} put back`,
    `${finished} finished and not taken`,
    failed > 0 && `${failed} failed`,
  ];
  const why = trouble ? [`    put back by ${trouble.worker}: ${trouble.reason}`] : [];
  return [`  ${title}`, `    ${parts.filter(Boolean).join(", ")}`, ...why];
}

function workerLine({ host, pid, since, concurrency, active }: WorkerStatus, now: number): string {
  return `  ${host}:${pid}  ${active} of ${concurrency} active, for ${ageText(now - Date.parse(since))}`;
}

function ageText(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

// Prints the state of a queue.
import { queueStatus, type QueueStatus, type WorkerStatus } from "../../queue/status.ts";
import { queueAddress } from "../../queue/address.ts";
import { collectionLines, counted } from "./words.ts";

export async function printStatus(url: string, json: boolean): Promise<void> {
  const address = queueAddress(url);
  const status = await queueStatus(address);
  process.stdout.write(json ? `${JSON.stringify(status)}\n` : textOf(status, address.typed, Date.now()));
}

/** For people. */
function textOf({ queue, collections, workers }: QueueStatus, typed: string, now: number): string {
  const lines = [
    collections.length === 0
      ? `nothing is in the queue at ${queue}`
      : `${counted(collections.length, "collection")} in the queue at ${queue}`,
    ...collections.flatMap(collectionLines),
    "",
    workers.length === 0
      ? `no worker takes part; start some with: holdfast worker --queue ${typed}`
      : `${counted(workers.length, "worker")}, ${workers.reduce((sum, { concurrency }) => sum + concurrency, 0)} at once`,
    ...workers.map((worker) => workerLine(worker, now)),
  ];
  return `${lines.join("\n")}\n`;
}

/** As long as a worker has what it plays without being heard of, in seconds. */
const quiet = 6;

function workerLine({ host, pid, since, silent, concurrency, active }: WorkerStatus, now: number): string {
  const line = `  ${host}:${pid}  ${active} of ${concurrency} active, for ${ageText(now - Date.parse(since))}`;
  return silent > quiet ? `${line}; not heard of for ${ageText(silent * 1000)}` : line;
}

function ageText(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

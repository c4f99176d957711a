// queueStatus(): reports the collections in the queue and the workers that take part.
import type { QueueAddress } from "./connection.ts";
import { surveyQueue, withQueue, type CollectionStatus } from "./survey.ts";
import { parseName } from "./worker-name.ts";

export interface QueueStatus {
  queue: string;
  collections: CollectionStatus[];
  workers: WorkerStatus[];
}

export interface WorkerStatus {
  host: string;
  pid: number;
  /** Start time. */
  since: string;
  /** Seconds of silence. A healthy worker is never silent for more than two. */
  silent: number;
  concurrency: number;
  active: number;
}

export async function queueStatus(address: QueueAddress): Promise<QueueStatus> {
  return withQueue(address, async (queue, connection) => {
    const { collections, heartbeats, activeBy } = await surveyQueue(queue, connection);
    const workers = [...heartbeats].flatMap(([name, silent]) => {
      const found = parseName(name);
      if (!found) return [];
      return [{ ...found, since: new Date(found.since).toISOString(), silent, active: activeBy.get(name) ?? 0 }];
    });
    const sorted = workers.sort((a, b) => a.since.localeCompare(b.since) || a.pid - b.pid);
    return { queue: address.shown, collections: [...collections.values()], workers: sorted };
  });
}

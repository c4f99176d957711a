// queueStatus(): what is in the queue, by collection, and who takes part.
import type { QueueAddress } from "./connection.ts";
import { surveyOf, withQueue, type CollectionStatus } from "./survey.ts";
import { parseName } from "./worker-name.ts";

export interface QueueStatus {
  queue: string;
  collections: CollectionStatus[];
  workers: WorkerStatus[];
}

export interface WorkerStatus {
  host: string;
  pid: number;
  /** When it began. */
  since: string;
  /** For how many seconds nothing was heard of it. A worker that is well says something every two. */
  silent: number;
  concurrency: number;
  active: number;
}

export async function queueStatus(address: QueueAddress): Promise<QueueStatus> {
  return withQueue(address, async (queue, connection) => {
    const { collections, hearts, activeBy } = await surveyOf(queue, connection);
    const workers = [...hearts].flatMap(([name, silent]) => {
      const found = parseName(name);
      if (!found) return [];
      return [{ ...found, since: new Date(found.since).toISOString(), silent, active: activeBy.get(name) ?? 0 }];
    });
    const sorted = workers.sort((a, b) => a.since.localeCompare(b.since) || a.pid - b.pid);
    return { queue: address.shown, collections: [...collections.values()], workers: sorted };
  });
}

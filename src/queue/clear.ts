// clearQueue(): removes jobs that no collector waits for.
import type { QueueAddress } from "./connection.ts";
import { parseCollectionKey } from "./job.ts";
import { surveyQueue, withQueue, type CollectionStatus } from "./survey.ts";

export interface Cleared {
  queue: string;
  /** Collections without a collector, as they were found. */
  collections: CollectionStatus[];
  /** Number of removed rollouts and results. */
  removed: number;
}

/** Jobs removed at a time. */
const atOnce = 500;

/**
 * Removes waiting results and unstarted rollouts of collections without a collector. Rollouts that a worker is playing
 * stay. A collector that returns at this moment loses nothing: it queues missing rollouts again, and finished ones are
 * in their sessions.
 */
export async function clearQueue(address: QueueAddress, remove: boolean): Promise<Cleared> {
  return withQueue(address, async (queue, connection) => {
    const { ids, collections } = await surveyQueue(queue, connection);
    const isLeft = (id: string): boolean => collections.get(parseCollectionKey(id))?.collector === false;
    const left = remove ? Object.values(ids).flat().filter(isLeft) : [];
    let removed = 0;
    for (let at = 0; at < left.length; at += atOnce) {
      // Returns 0 for a job that a worker holds.
      const gone = await Promise.all(left.slice(at, at + atOnce).map((id) => queue.remove(id)));
      removed += gone.reduce((sum, count) => sum + count, 0);
    }
    const found = [...collections.values()].filter(({ collector }) => !collector);
    return { queue: address.shown, collections: found, removed };
  });
}

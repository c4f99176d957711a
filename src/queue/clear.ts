// clearQueue(): takes out of the queue what no collector waits for any more.
import type { QueueAddress } from "./connection.ts";
import { runKeyIn } from "./job.ts";
import { surveyOf, withQueue, type CollectionStatus } from "./survey.ts";

export interface Cleared {
  queue: string;
  /** Those without a collector, as they were found. */
  collections: CollectionStatus[];
  /** How many rollouts and results were taken out; 0 if nothing was to be. */
  removed: number;
}

/** How many at once. */
const atOnce = 500;

/**
 * Results that wait and rollouts that nobody has begun, of collections whose collector is gone. What a worker is playing
 * stays. A collector that comes back just then loses nothing: it hands out again what the queue does not have, and what
 * was played is in its session.
 */
export async function clearQueue(address: QueueAddress, remove: boolean): Promise<Cleared> {
  return withQueue(address, async (queue, connection) => {
    const { ids, collections } = await surveyOf(queue, connection);
    const isLeft = (id: string): boolean => collections.get(runKeyIn(id))?.collector === false;
    const left = remove ? Object.values(ids).flat().filter(isLeft) : [];
    let removed = 0;
    for (let at = 0; at < left.length; at += atOnce) {
      // Gives 0 of one that a worker holds.
      const gone = await Promise.all(left.slice(at, at + atOnce).map((id) => queue.remove(id)));
      removed += gone.reduce((sum, count) => sum + count, 0);
    }
    const found = [...collections.values()].filter(({ collector }) => !collector);
    return { queue: address.shown, collections: found, removed };
  });
}

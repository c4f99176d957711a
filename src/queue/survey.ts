// surveyQueue(): lists the jobs of the queue by collection. `queue status` prints it and `queue clear` selects from it.
import { connectQueue, type Connection, type QueueAddress } from "./connection.ts";
import { readHeartbeats } from "./heartbeats.ts";
import {
  doneChannel,
  parseJob,
  queueOptions,
  queueName,
  parseCollectionKey,
  parseTrouble,
  type RolloutQueue,
  type Trouble,
} from "./job.ts";

export interface CollectionStatus {
  run: string;
  title: string;
  /** True if a collector waits for its results. */
  collector: boolean;
  waiting: number;
  active: number;
  /** Active jobs of workers that are silent. */
  stalled: number;
  /** Put back for a while. */
  delayed: number;
  /** Played, and not yet taken by the collector. */
  finished: number;
  /** Without a result, because of a fault in the worker. */
  failed: number;
  /** Why a job was put back, or that it ended its process. */
  trouble?: Trouble;
}

export interface Survey {
  /** Job ids by state. */
  ids: { [state in "waiting" | "active" | "delayed" | "finished" | "failed"]: string[] };
  /** By the prefix of their job ids. */
  collections: Map<string, CollectionStatus>;
  /** By worker name: seconds of silence, and the number of rollouts it holds. */
  heartbeats: Map<string, number>;
  activeBy: Map<string, number>;
}

/** Opens the queue for one operation. */
export async function withQueue<T>(
  address: QueueAddress,
  use: (queue: RolloutQueue, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await connectQueue(address, () => undefined);
  const options = { ...queueOptions(connection), skipMetasUpdate: true };
  const queue: RolloutQueue = new connection.bullmq.Queue(queueName, options);
  queue.on("error", () => undefined);
  try {
    return await use(queue, connection);
  } finally {
    await queue.close();
    connection.close();
  }
}

export async function surveyQueue(queue: RolloutQueue, connection: Connection): Promise<Survey> {
  const ids: Survey["ids"] = {
    waiting: await queue.getRanges(["wait"], 0, -1),
    active: await queue.getRanges(["active"], 0, -1),
    delayed: await queue.getRanges(["delayed"], 0, -1),
    finished: await queue.getRanges(["completed"], 0, -1),
    failed: await queue.getRanges(["failed"], 0, -1),
  };
  const collections = new Map<string, CollectionStatus>();
  for (const [state, found] of Object.entries(ids) as [keyof typeof ids, string[]][]) {
    for (const id of found) {
      const key = parseCollectionKey(id);
      const known = collections.get(key) ?? (await newStatus(queue, connection, id));
      if (!known) continue;
      collections.set(key, known);
      known[state]++;
      // One per collection: most delayed jobs have the same reason.
      if (hasTrouble.has(state) && !known.trouble) Object.assign(known, await readTrouble(queue, id, state));
    }
  }
  const heartbeats = await readHeartbeats(connection);
  const activeBy = new Map<string, number>();
  for (const id of ids.active) {
    const by = (await queue.getJob(id))?.processedBy;
    const isLocked = await connection.client.exists(`${queue.toKey(id)}:lock`);
    // A killed worker disappears before its lock expires.
    const isHeld = isLocked && (heartbeats === undefined || by === undefined || heartbeats.has(by));
    const known = collections.get(parseCollectionKey(id));
    if (known && !isHeld) known.stalled++;
    if (by !== undefined && isHeld) activeBy.set(by, (activeBy.get(by) ?? 0) + 1);
  }
  return { ids, collections, heartbeats: heartbeats ?? new Map(), activeBy };
}

async function newStatus(
  queue: RolloutQueue,
  connection: Connection,
  id: string,
): Promise<CollectionStatus | undefined> {
  const job = await queue.getJob(id);
  // The collector may have taken it meanwhile.
  if (!job) return undefined;
  const { run, title } = parseJob(job.data)?.collection ?? { run: "", title: "other keys, not written by Holdfast" };
  const collector = await isHeard(connection, doneChannel(connection.prefix, parseCollectionKey(id)));
  return { run, title, collector, waiting: 0, active: 0, stalled: 0, delayed: 0, finished: 0, failed: 0 };
}

/** Tells whether a channel has subscribers. In a Cluster, only the server they are connected to knows. */
async function isHeard({ onEach }: Connection, channel: string): Promise<boolean> {
  const listeners = await onEach(async (server) => Number((await server.pubsub("NUMSUB", channel))[1]));
  return listeners.some((count) => count > 0);
}

const hasTrouble = new Set(["delayed", "active"]);

/** Returns the trouble of a job. An active job that was put back before has none any more. */
async function readTrouble(queue: RolloutQueue, id: string, state: string): Promise<{ trouble?: Trouble }> {
  const trouble = parseTrouble((await queue.getJob(id))?.progress);
  return trouble && (state === "delayed" || trouble.type === "crashed") ? { trouble } : {};
}

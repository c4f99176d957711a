// What is in the queue, by collection: what `queue status` tells, and what `queue clear` chooses from.
import { connectQueue, type Connection, type QueueAddress } from "./connection.ts";
import { heartsOf } from "./hearts.ts";
import {
  channelOf,
  dataIn,
  optionsOf,
  queueName,
  runKeyIn,
  troubleIn,
  type RolloutQueue,
  type Trouble,
} from "./job.ts";

export interface CollectionStatus {
  run: string;
  title: string;
  /** Whether a collector waits for what comes of it. */
  collector: boolean;
  waiting: number;
  active: number;
  /** Of those that are active: their worker is not heard of any more. */
  stalled: number;
  /** Put back for a while. */
  delayed: number;
  /** Played, and not taken by their collection yet. */
  finished: number;
  /** Without a result, by a fault of the worker. */
  failed: number;
  /** Why one was put back. */
  trouble?: Trouble;
}

export interface Survey {
  /** The jobs, by what they are. */
  ids: { [state in "waiting" | "active" | "delayed" | "finished" | "failed"]: string[] };
  /** By what the ids of their jobs begin with. */
  collections: Map<string, CollectionStatus>;
  /** How long each worker was silent, in seconds, and how many rollouts it holds, by its name. */
  hearts: Map<string, number>;
  activeBy: Map<string, number>;
}

/** Opens the queue for a moment. */
export async function withQueue<T>(
  address: QueueAddress,
  use: (queue: RolloutQueue, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await connectQueue(address, () => undefined);
  const options = { ...optionsOf(connection), skipMetasUpdate: true };
  const queue: RolloutQueue = new connection.bullmq.Queue(queueName, options);
  queue.on("error", () => undefined);
  try {
    return await use(queue, connection);
  } finally {
    await queue.close();
    connection.close();
  }
}

export async function surveyOf(queue: RolloutQueue, connection: Connection): Promise<Survey> {
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
      const key = runKeyIn(id);
      const known = collections.get(key) ?? (await newStatus(queue, connection, id));
      if (!known) continue;
      collections.set(key, known);
      known[state]++;
      // Of each collection one: what is wrong is the same with most.
      if (state === "delayed" && !known.trouble) Object.assign(known, await troubleOf(queue, id));
    }
  }
  const hearts = await heartsOf(connection);
  const activeBy = new Map<string, number>();
  for (const id of ids.active) {
    const by = (await queue.getJob(id))?.processedBy;
    const isLocked = await connection.client.exists(`${queue.toKey(id)}:lock`);
    // Whoever was killed is gone before its lock is.
    const isHeld = isLocked && (hearts === undefined || by === undefined || hearts.has(by));
    const known = collections.get(runKeyIn(id));
    if (known && !isHeld) known.stalled++;
    if (by !== undefined && isHeld) activeBy.set(by, (activeBy.get(by) ?? 0) + 1);
  }
  return { ids, collections, hearts: hearts ?? new Map(), activeBy };
}

async function newStatus(
  queue: RolloutQueue,
  connection: Connection,
  id: string,
): Promise<CollectionStatus | undefined> {
  const job = await queue.getJob(id);
  // It may just have been taken.
  if (!job) return undefined;
  const { run, title } = dataIn(job.data)?.collection ?? { run: "", title: "what is not Holdfast's" };
  const collector = await isHeard(connection, channelOf(connection.prefix, runKeyIn(id)));
  return { run, title, collector, waiting: 0, active: 0, stalled: 0, delayed: 0, finished: 0, failed: 0 };
}

/** Whether anybody listens to a channel. On a Cluster that is told by the server that they are connected to. */
async function isHeard({ onEach }: Connection, channel: string): Promise<boolean> {
  const listeners = await onEach(async (server) => Number((await server.pubsub("NUMSUB", channel))[1]));
  return listeners.some((count) => count > 0);
}

async function troubleOf(queue: RolloutQueue, id: string): Promise<{ trouble?: Trouble }> {
  const trouble = troubleIn((await queue.getJob(id))?.progress);
  return trouble ? { trouble } : {};
}

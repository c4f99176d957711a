// queueStatus() and clearQueue(): report a queue's jobs by collection, and remove jobs without a collector.
import { connectQueue, type Connection, type QueueAddress } from "./connection.ts";
import { doneChannel, parseJob, queueOptions, queueName, parseCollectionKey, parseTrouble } from "./job.ts";
import type { RolloutQueue, Trouble } from "./job.ts";
import { toConnectionName, parseName } from "./worker-name.ts";

export interface CollectionStatus {
  run: string;
  title: string;
  /** True if a collector is waiting for the results. */
  collector: boolean;
  waiting: number;
  active: number;
  /** Active jobs held by unresponsive workers. */
  stalled: number;
  delayed: number;
  /** Played jobs whose result the collector has not taken yet. */
  finished: number;
  /** Jobs without a result, because of a fault in the worker. */
  failed: number;
  /** The reason why a job was returned to the queue or crashed its process. */
  trouble?: Trouble;
}

interface Survey {
  /** Job ids by state. */
  ids: { [state in "waiting" | "active" | "delayed" | "finished" | "failed"]: string[] };
  /** The collections, by the prefix of their job ids. */
  collections: Map<string, CollectionStatus>;
  /** For each worker name, the seconds without a heartbeat, and the number of rollouts that the worker holds. */
  heartbeats: Map<string, number>;
  activeBy: Map<string, number>;
}

/** Opens the queue for one operation. */
async function withQueue<T>(
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

async function surveyQueue(queue: RolloutQueue, connection: Connection): Promise<Survey> {
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
      // Reads one problem per collection, because most delayed jobs have the same reason.
      if (hasTrouble.has(state) && !known.trouble) Object.assign(known, await readTrouble(queue, id, state));
    }
  }
  const heartbeats = await readHeartbeats(connection);
  const activeBy = new Map<string, number>();
  for (const id of ids.active) {
    const by = (await queue.getJob(id))?.processedBy;
    const isLocked = await connection.client.exists(`${queue.toKey(id)}:lock`);
    // The connection of a killed worker disappears before its lock expires.
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
  // The collector may have taken the job in the meantime.
  if (!job) return undefined;
  const { run, title } = parseJob(job.data)?.collection ?? { run: "", title: "other keys, not written by Holdfast" };
  const collector = await isHeard(connection, doneChannel(connection.prefix, parseCollectionKey(id)));
  return { run, title, collector, waiting: 0, active: 0, stalled: 0, delayed: 0, finished: 0, failed: 0 };
}

/**
 * Returns whether a channel has subscribers. In a Cluster, only the server to which the subscribers are connected
 * knows.
 */
async function isHeard({ onEach }: Connection, channel: string): Promise<boolean> {
  const listeners = await onEach(async (server) => Number((await server.pubsub("NUMSUB", channel))[1]));
  return listeners.some((count) => count > 0);
}

const hasTrouble = new Set(["delayed", "active"]);

/** Returns the problem of a job; undefined once the job is active again. */
async function readTrouble(queue: RolloutQueue, id: string, state: string): Promise<{ trouble?: Trouble }> {
  const trouble = parseTrouble((await queue.getJob(id))?.progress);
  return trouble && (state === "delayed" || trouble.type === "crashed") ? { trouble } : {};
}

/**
 * Returns the seconds without a heartbeat by worker name, measured by the server's clock. A worker on a lost machine
 * stays listed for minutes. Returns undefined if the server does not list connections.
 */
async function readHeartbeats({ onEach, prefix }: Connection): Promise<Map<string, number> | undefined> {
  const lists = await onEach(async (server) => String(await server.client("LIST"))).catch(() => undefined);
  if (!lists) return undefined;
  const heartbeats = new Map<string, number>();
  const start = toConnectionName(prefix, "");
  for (const line of lists.flatMap((list) => list.split("\n"))) {
    const [, name = "", idle] = / name=(\S+) .*\bidle=(\d+) /.exec(line) ?? [];
    if (!name.startsWith(start)) continue;
    const worker = name.slice(start.length);
    heartbeats.set(worker, Math.min(Number(idle), heartbeats.get(worker) ?? Infinity));
  }
  return heartbeats;
}

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
  /** Seconds without a heartbeat. For a healthy worker, at most two. */
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

export interface Cleared {
  queue: string;
  /** Collections without a collector, as they were found. */
  collections: CollectionStatus[];
  /** Number of removed rollouts and results. */
  removed: number;
}

/** Number of jobs that are removed together. */
const atOnce = 500;

/**
 * Removes waiting results, and rollouts that have not started, for collections without a collector. Rollouts that a
 * worker is running are left unchanged. A collector that is resumed at this moment loses nothing: it queues missing
 * rollouts again, and the sessions of finished rollouts have their results.
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

// queueStatus(): what is in the queue, by collection, and who takes part.
import type { Queue } from "bullmq";
import type { Played } from "../core/rollout.ts";
import { connectQueue, type QueueAddress } from "./connection.ts";
import { dataIn, optionsOf, queueName, runKeyIn, troubleIn, type JobData, type Trouble } from "./job.ts";
import { parseName } from "./worker-name.ts";

export interface QueueStatus {
  queue: string;
  collections: CollectionStatus[];
  workers: WorkerStatus[];
}

export interface CollectionStatus {
  run: string;
  title: string;
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

export interface WorkerStatus {
  host: string;
  pid: number;
  /** When it began. */
  since: string;
  concurrency: number;
  active: number;
}

type RolloutQueue = Queue<JobData, Played, string>;

export async function queueStatus(address: QueueAddress): Promise<QueueStatus> {
  const connection = await connectQueue(address, () => undefined);
  const options = { ...optionsOf(connection), skipMetasUpdate: true };
  const queue: RolloutQueue = new connection.bullmq.Queue(queueName, options);
  queue.on("error", () => undefined);
  try {
    const ids = {
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
        const known = collections.get(key) ?? (await newStatus(queue, id));
        if (!known) continue;
        collections.set(key, known);
        known[state]++;
        // Of each collection one: what is wrong is the same with most.
        if (state === "delayed" && !known.trouble) Object.assign(known, await troubleOf(queue, id));
      }
    }
    const activeBy = new Map<string, number>();
    for (const id of ids.active) {
      const known = collections.get(runKeyIn(id));
      const isLocked = await connection.client.exists(`${queue.toKey(id)}:lock`);
      if (known && !isLocked) known.stalled++;
      const by = (await queue.getJob(id))?.processedBy;
      if (by !== undefined && isLocked) activeBy.set(by, (activeBy.get(by) ?? 0) + 1);
    }
    const workers = (await queue.getWorkers()).flatMap(({ rawname = "" }) => {
      const found = parseName(rawname);
      if (!found) return [];
      const active = activeBy.get(rawname.slice(rawname.indexOf(":w:") + 3)) ?? 0;
      return [{ ...found, since: new Date(found.since).toISOString(), active }];
    });
    const sorted = workers.sort((a, b) => a.since.localeCompare(b.since) || a.pid - b.pid);
    return { queue: address.shown, collections: [...collections.values()], workers: sorted };
  } finally {
    await queue.close();
    connection.close();
  }
}

async function newStatus(queue: RolloutQueue, id: string): Promise<CollectionStatus | undefined> {
  const job = await queue.getJob(id);
  // It may just have been taken.
  if (!job) return undefined;
  const { run, title } = dataIn(job.data)?.collection ?? { run: "", title: "what is not Holdfast's" };
  return { run, title, waiting: 0, active: 0, stalled: 0, delayed: 0, finished: 0, failed: 0 };
}

async function troubleOf(queue: RolloutQueue, id: string): Promise<{ trouble?: Trouble }> {
  const trouble = troubleIn((await queue.getJob(id))?.progress);
  return trouble ? { trouble } : {};
}

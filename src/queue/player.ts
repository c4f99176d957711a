// openQueuePlayer(): queues a collection's rollouts for workers and returns their results.
import type { Job } from "bullmq";
import { messageOf } from "../core/errors.ts";
import { equalJson } from "../core/json.ts";
import { failedRollout, type Played, type Rollout } from "../core/rollout.ts";
import { onAbort } from "../io/abort.ts";
import type { Player } from "../rollout/source.ts";
import { connectQueue, type QueueAddress } from "./connection.ts";
import {
  doneChannel,
  toJobId,
  kept,
  overKey,
  queueOptions,
  queueName,
  parseCollectionKey,
  toCollectionKey,
  parseTrouble,
} from "./job.ts";
import type { QueuedCollection, JobData, RolloutQueue } from "./job.ts";

export interface QueuePlayerOptions {
  address: QueueAddress;
  collection: QueuedCollection;
  /** Receives messages for people: no worker is running, or the queue is unreachable. */
  say(text: string): void;
}

interface Waiting {
  rollout: Rollout;
  /** Settles when every attempt to queue the job has ended. */
  putting: Promise<void>;
  end(played: Played): void;
}

/** Poll interval in milliseconds. Polling is needed, because messages about finished jobs can be missed. */
const lookEvery = 1000;
/** Number of jobs that are checked together. */
const lookAt = 500;
/** Milliseconds without a result before a message explains why. */
const quiet = 5000;
const sayEvery = 30_000;

/**
 * Queues rollouts as jobs, with ids derived from their sessions. A queued job is not added again. If a job finished
 * while no collector was waiting, its result is returned immediately. Results stay in the queue until they are
 * delivered.
 */
export async function openQueuePlayer({ address, collection, say }: QueuePlayerOptions): Promise<Player> {
  const connection = await connectQueue(address, say);
  const queue: RolloutQueue = new connection.bullmq.Queue(queueName, queueOptions(connection));
  queue.on("error", () => undefined);
  const waiting = new Map<string, Waiting>();
  /** Pending removals from the queue. */
  const leaving = new Set<Promise<unknown>>();
  let isCancelled = false;
  let isClosed = false;
  let newest = Date.now();

  const listener = connection.listener();
  listener.on("message", (_channel: string, id: string) => void look(id));
  const mine = toCollectionKey(collection.run);
  const marked = overKey(connection.prefix, mine);
  // A collection that continues is not over.
  await connection.client.del(marked);
  await listener.subscribe(doneChannel(connection.prefix, mine));
  let timer = setTimeout(() => void lookAround(), lookEvery);

  /** Queues a rollout unless it is queued already. */
  async function put(id: string, rollout: Rollout): Promise<void> {
    const job = await queue.getJob(id);
    if (job?.finishedOn !== undefined) return take(id, job);
    const data: JobData = { collection, rollout };
    if (!job) await queue.add(collection.title, data, { jobId: id });
    // The job is updated if the collection was resumed with different settings.
    else if (!equalJson({ ...job.data.collection }, { ...collection })) await job.updateData(data);
  }

  function take(id: string, { returnvalue, failedReason }: Job<JobData, Played>): void {
    const found = waiting.get(id);
    if (!found) return;
    newest = Date.now();
    const reason = failedReason ?? "the worker returned no result";
    found.end(returnvalue ?? failedRollout(found.rollout.session, "internal", reason));
    // Removes the result after the caller has written it. If this process is killed earlier, the queue still has it.
    setImmediate(() => leave(queue.remove(id)));
  }

  /** Takes a job's result, or queues the job again if the queue has lost it. */
  async function look(id: string): Promise<void> {
    const found = waiting.get(id);
    if (!found || isClosed) return;
    found.putting = found.putting.then(() => putIfWanted(id, found));
    await found.putting;
  }

  async function putIfWanted(id: string, wanted: Waiting): Promise<void> {
    if (waiting.get(id) === wanted) await put(id, wanted.rollout).catch(complain);
  }

  const complaints = new Map<string, number>();

  /**
   * Reports that the queue refused a job, for example because it is out of memory. The job is offered again. Equal
   * messages are rate-limited.
   */
  function complain(thrown: unknown): void {
    const text = `the queue at ${address.shown} refused a job, which will be sent again: ${messageOf(thrown)}`;
    if (isClosed || Date.now() - (complaints.get(text) ?? 0) < sayEvery) return;
    complaints.set(text, Date.now());
    say(text);
  }

  async function lookAround(): Promise<void> {
    const began = Date.now();
    const ids = [...waiting.keys()];
    try {
      for (let at = 0; at < ids.length; at += lookAt) {
        await Promise.all(ids.slice(at, at + lookAt).map(lookIfDone));
      }
      if (waiting.size > 0 && Date.now() - newest > quiet) await sayWhy();
    } catch (thrown) {
      complain(thrown);
    }
    // With many jobs a check takes long, so checks take at most a tenth of the time.
    const pause = Math.max(lookEvery, 10 * (Date.now() - began));
    if (!isClosed) timer = setTimeout(() => void lookAround(), pause);
  }

  async function lookIfDone(id: string): Promise<void> {
    if (isClosed) return;
    const state = await queue.getJobState(id);
    if (["completed", "failed", "unknown"].includes(state)) await look(id);
  }

  const isMine = (id: string): boolean => parseCollectionKey(id) === mine;
  const told = new Set<string>();

  /** Explains why no result has arrived for a while, which is normal with long episodes. */
  async function sayWhy(): Promise<void> {
    newest = Date.now();
    if ((await queue.getWorkersCount()) === 0) {
      say(`no worker is running; start one with: npx holdfast worker --queue ${address.typed}`);
      return;
    }
    const delayed = (await queue.getRanges(["delayed"], 0, lookAt)).find(isMine);
    const active = (await queue.getRanges(["active"], 0, lookAt)).filter(isMine);
    for (const id of delayed === undefined ? active : [delayed, ...active]) {
      const trouble = parseTrouble((await queue.getJob(id))?.progress);
      if (!trouble || told.has(trouble.reason)) continue;
      told.add(trouble.reason);
      const what = trouble.type === "crashed" ? "retries a rollout" : "returned rollouts to the queue";
      say(`worker ${trouble.worker} ${what}: ${trouble.reason}`);
    }
  }

  function leave(work: Promise<unknown>): void {
    const leaves = work.catch(() => undefined).finally(() => leaving.delete(leaves));
    leaving.add(leaves);
  }

  /** Removes a job that has not started. A started job runs on, and its result waits for the resumed collection. */
  async function withdraw(id: string): Promise<void> {
    const state = await queue.getJobState(id);
    if (state === "waiting" || state === "delayed") await queue.remove(id);
  }

  /** Removes jobs that a killed process left in the queue after it wrote their results. */
  async function clear(): Promise<void> {
    const ids = await queue.getRanges(["completed", "failed", "wait", "delayed"], 0, -1);
    await Promise.all(ids.filter((id) => parseCollectionKey(id) === mine).map((id) => queue.remove(id)));
  }

  return {
    play: (rollout, signal) =>
      new Promise((resolve) => {
        const id = toJobId(collection.run, rollout.session);
        let stopListening = (): void => undefined;
        const own: Waiting = {
          rollout,
          putting: Promise.resolve(),
          end(played) {
            if (waiting.get(id) !== own) return;
            waiting.delete(id);
            stopListening();
            resolve(played);
          },
        };
        const cancel = (): void => {
          isCancelled = true;
          own.end(failedRollout(rollout.session, "internal", "it was cancelled"));
          // Waits until the job is queued. Otherwise the job would stay in the queue.
          leave(own.putting.then(() => withdraw(id)));
        };
        if (waiting.size === 0) newest = Date.now();
        waiting.set(id, own);
        stopListening = onAbort(signal, cancel);
        if (!signal.aborted) void look(id);
      }),
    /**
     * After a cancellation, removes jobs that have not started. Otherwise removes jobs left by killed processes. If the
     * collection is over, workers also end its running rollouts, and drop their results.
     */
    async stop(isOver = false) {
      if (isOver) {
        await connection.client.set(marked, "1", "EX", kept).catch((thrown: unknown) => {
          say(
            `could not tell workers that a collection is over, so its running rollouts continue: ${messageOf(thrown)}`,
          );
        });
        // From here on, workers find no listener and drop their results. `clear` removes the earlier ones.
        await listener.unsubscribe();
      }
      await Promise.all(leaving);
      if (isOver || !isCancelled) await clear();
      isClosed = true;
      clearTimeout(timer);
      await queue.close();
      connection.close();
    },
  };
}

// startQueueWorker(): takes rollouts from the queue, runs them, and leaves the results for their collector.
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Job, Worker } from "bullmq";
import { messageOf } from "../core/errors.ts";
import { failedRollout, type Play, type Played } from "../core/rollout.ts";
import type { Collections } from "./collections.ts";
import { connectQueue, toKeyPrefix, type QueueAddress } from "./connection.ts";
import { doneChannel, overKey, parseCollectionKey, parseJob, queueName, toCollectionKey, parseTrouble } from "./job.ts";
import type { QueuedCollection, JobData } from "./job.ts";
import { createPlaying, mostStopping, orAfter, playUntil, type Playing } from "./playing.ts";
import { toConnectionName, formatName, shownName } from "./worker-name.ts";

export interface QueueWorkerOptions extends Pick<Collections, "openPlayer" | "readCut"> {
  address: QueueAddress;
  /** Maximum number of concurrent rollouts. */
  concurrency: number;
  /** Returns a collection's player that runs each rollout in its own process. */
  openAlone(collection: QueuedCollection): Play;
  /** A rollout fails after its own process has crashed this many times. */
  maxCrashes: number;
  onEvent(event: WorkerEvent): void;
  /** Receives messages about the queue, for people. */
  say(text: string): void;
}

/** The outcome of a rollout on this worker. */
export interface WorkerEvent {
  /**
   * `refused`: this worker cannot run the rollout. `returned`: it is back in the queue. `lost`: another worker holds
   * it. `crashed`: it crashed its own process, and runs again.
   */
  type: "played" | "failed" | "refused" | "returned" | "lost" | "crashed";
  collection: string;
  session: string;
  reason?: string;
}

export interface QueueWorker {
  /** The worker's name in `queue status`. */
  name: string;
  /** Takes no new jobs, waits up to `grace` milliseconds for running jobs, and returns unfinished jobs to the queue. */
  stop(grace: number): Promise<void>;
}

type RolloutJob = Job<JobData, Played>;

/** Why a job returns to the queue. */
interface Why {
  type: "refused" | "returned";
  reason: string;
  times: number;
}

/** Milliseconds for which a worker that does not respond keeps a rollout. */
const lockDuration = 6000;
const renewEvery = lockDuration / 4;
/** Milliseconds between two searches for rollouts of lost workers. */
const stalledInterval = 2000;
/**
 * A killed worker does not count as a failure of its rollouts, because only one rollout can have killed the worker.
 * Each rollout that may have killed the worker then runs in its own process, where a crash counts.
 */
const maxStalledCount = 1_000_000_000;
/** After this many lost workers, a rollout always runs in its own process. */
const mostStalls = 3;
/** Milliseconds until a refused rollout is offered again, and until this worker takes a new rollout. */
const refusedFor = 250;
const restFor = 2000;
const longestRefused = 10_000;
/**
 * Maximum number of times that a rollout returns to the queue because its store fails or another process writes to its
 * session. The returns take about five minutes in total.
 */
const mostReturns = 60;
const returnedFor = (times: number): number => Math.min(250 * 2 ** times, 5000);

/**
 * Takes rollouts until it is stopped, and holds a lock on each. If a lock is not renewed in time, another worker
 * continues from the session's log, and this worker's result is discarded.
 */
export async function startQueueWorker(options: QueueWorkerOptions): Promise<QueueWorker> {
  const { address, concurrency, openPlayer, openAlone, readCut, maxCrashes, onEvent, say } = options;
  const name = formatName({ host: hostname(), pid: process.pid, since: Date.now(), concurrency });
  const connection = await connectQueue(address, say, toConnectionName(toKeyPrefix(address), name));
  const { DelayedError, UnrecoverableError, WaitingError } = connection.bullmq;
  const playing = new Map<string, Playing>();
  /** The jobs that ended because their collection is over. Nobody needs to know. */
  const over = new Set<string>();
  let isStopping = false;

  async function take(job: RolloutJob, token = ""): Promise<Played> {
    const id = job.id as string;
    if (!parseJob(job.data)) throw new UnrecoverableError("the job is not a Holdfast rollout");
    const before = playing.get(id);
    // The lock was lost, and this worker got the job again before it noticed the loss.
    before?.lose();
    if (before || isStopping) return putBack(job, token, before ? returnedFor(0) : 0);
    const own = createPlaying(() => job.extendLock(token, lockDuration));
    playing.set(id, own);
    try {
      return await played(job, token, own);
    } finally {
      playing.delete(id);
      own.end();
    }
  }

  async function played(job: RolloutJob, token: string, own: Playing): Promise<Played> {
    const { collection, rollout } = job.data;
    const trouble = parseTrouble(job.progress);
    const countTimes = (type: Why["type"]): number => (trouble?.type === type ? trouble.times : 0);
    const times = countTimes("returned");
    const play = await openPlayer(collection).catch((thrown: unknown) => messageOf(thrown));
    if (typeof play === "string") {
      const refusals = countTimes("refused");
      const why: Why = { type: "refused", reason: play, times: refusals + 1 };
      try {
        // The job is offered less and less often, because maybe no worker can run it. The pause is random, so that one
        // worker is not offered all jobs while the others wake up.
        const after = Math.min(refusedFor * 2 ** refusals, longestRefused) * (0.5 + Math.random() / 2);
        return await putBack(job, token, Math.round(after), why);
      } finally {
        // Pauses, so that other workers, which may be able to run the job, come first.
        if (refusals < 2) await delay(restFor, undefined, { signal: own.signal }).catch(() => undefined);
      }
    }
    const began = performance.now();
    const isSuspect = job.stalledCounter > 0 && (await maySuspect(job));
    const ended = await (isSuspect ? playAlone(job, own.signal) : playUntil(play, rollout, own.signal));
    // The seconds do not include the time spent waiting for a worker.
    const result: Played = { ...ended, seconds: (performance.now() - began) / 1000 };
    if (own.isLost) throw lost(job);
    if (own.isOver) over.add(job.id as string);
    if (result.outcome !== "failed" || own.isOver) return result;
    if (own.signal.aborted)
      return putBack(job, token, 0, { type: "returned", reason: "the worker is stopping", times });
    const { kind, reason } = result.failure;
    // A failure of kind "store": the store is unreachable, or another worker wrote to the rollout's session.
    if (kind !== "store" || times >= mostReturns) return result;
    return putBack(job, token, returnedFor(times), { type: "returned", reason, times: times + 1 });
  }

  /** Returns whether a rollout may have crashed its last worker: its own code was running, or it lost many workers. */
  async function maySuspect({ data: { collection, rollout }, stalledCounter }: RolloutJob): Promise<boolean> {
    if (stalledCounter >= mostStalls) return true;
    return (await readCut(collection, rollout).catch(() => undefined)) !== undefined;
  }

  /** Runs a rollout in its own process. Runs it again if it crashes that process. */
  async function playAlone(job: RolloutJob, signal: AbortSignal): Promise<Played> {
    const { collection, rollout } = job.data;
    const trouble = parseTrouble(job.progress);
    for (let times = trouble?.type === "crashed" ? trouble.times + 1 : 1; ; times++) {
      const ended = await playUntil(openAlone(collection), rollout, signal);
      if (signal.aborted || ended.outcome !== "failed" || ended.failure.kind !== "worker") return ended;
      const cut = (await readCut(collection, rollout).catch(() => undefined)) ?? "its agent";
      const reason = `${ended.failure.reason} while ${cut} was running (${times} of ${maxCrashes} times)`;
      if (times >= maxCrashes) return { ...ended, failure: { kind: "worker", reason } };
      onEvent(toEvent("crashed", job, reason));
      // `queue status`, the collector and the next worker read the progress.
      await job.updateProgress({ type: "crashed", reason, times, worker: shownName(name) }).catch(() => undefined);
    }
  }

  const isOver = async (keys: string[]): Promise<boolean[]> =>
    (await connection.client.mget(keys.map((key) => overKey(connection.prefix, key)))).map((mark) => mark !== null);

  let isAsking = false;

  /** Ends the running rollouts of collections that are over. */
  async function endOver(): Promise<void> {
    // An earlier question is still waiting for the server.
    if (isAsking || playing.size === 0) return;
    isAsking = true;
    try {
      const keys = [...new Set([...playing.keys()].map(parseCollectionKey))];
      const marks = await isOver(keys);
      for (const [id, each] of playing) if (marks[keys.indexOf(parseCollectionKey(id))]) each.endOver();
    } finally {
      isAsking = false;
    }
  }

  /**
   * Offers a job again, now or later. The thrown error tells BullMQ that the job is already handled. A job of a
   * collection that is over gets a result instead, which `tell` removes.
   */
  async function putBack(job: RolloutJob, token: string, after: number, why?: Why): Promise<Played> {
    const { collection, rollout } = job.data;
    const [isMarked] = await isOver([toCollectionKey(collection.run)]).catch(() => [false]);
    if (isMarked) over.add(job.id as string);
    if (isMarked) return failedRollout(rollout.session, "internal", "its collection is over");
    try {
      if (after === 0) await job.moveToWait(token);
      else await job.moveToDelayed(Date.now() + after, token);
    } catch {
      throw lost(job);
    }
    if (why) {
      const { type, reason, times } = why;
      onEvent(toEvent(type, job, reason));
      // `queue status` and the next worker read the progress.
      await job.updateProgress({ type, reason, times, worker: shownName(name) }).catch(() => undefined);
    }
    throw after === 0 ? new WaitingError() : new DelayedError();
  }

  /** Reports a lost job. Another worker has the job or will get it. */
  function lost(job: RolloutJob): Error {
    onEvent(toEvent("lost", job));
    return new DelayedError();
  }

  const worker: Worker<JobData, Played> = new connection.bullmq.Worker(queueName, take, {
    connection: connection.client,
    prefix: connection.prefix,
    name,
    concurrency,
    lockDuration,
    stalledInterval,
    maxStalledCount,
    // Milliseconds before the worker continues after a lost connection.
    runRetryDelay: 1000,
    skipLockRenewal: true,
  });
  const renewing = setInterval(() => {
    for (const each of playing.values()) each.renew().catch(() => undefined);
    endOver().catch(() => undefined);
  }, renewEvery);
  worker.on("error", (error) => {
    if (!isExpected(error)) say(`the queue failed: ${messageOf(error)}`);
  });
  /** Announces a result, or drops it if its collection is over. The message only saves time: the collector also polls. */
  async function tell(job: RolloutJob): Promise<void> {
    const key = toCollectionKey(job.data.collection.run);
    const listeners = await connection.client.publish(doneChannel(connection.prefix, key), job.id as string);
    if (listeners === 0 && (await isOver([key]))[0]) await job.remove();
  }
  worker.on("completed", (job, played) => {
    const { kind, reason } = played.outcome === "failed" ? played.failure : {};
    if (!over.delete(job.id as string))
      onEvent(kind ? toEvent("failed", job, `${kind}: ${reason}`) : toEvent("played", job));
    tell(job).catch(() => undefined);
  });
  worker.on("failed", (job, error) => {
    if (!job) return;
    if (!parseJob(job.data)) return say(`the queue has a job that was not created by Holdfast: ${job.id}`);
    onEvent(toEvent("failed", job, messageOf(error)));
    tell(job).catch(() => undefined);
  });

  return {
    name: shownName(name),
    async stop(grace) {
      isStopping = true;
      await worker.pause(true);
      await orAfter(Promise.all([...playing.values()].map(({ ended }) => ended)), grace);
      for (const each of playing.values()) each.stop();
      await orAfter(worker.close(), mostStopping + 1000);
      clearInterval(renewing);
      connection.close();
    },
  };
}

function toEvent(type: WorkerEvent["type"], { data }: RolloutJob, reason?: string): WorkerEvent {
  const { collection, rollout } = data;
  return { type, collection: collection.title, session: rollout.session, ...(reason !== undefined && { reason }) };
}

/** BullMQ's errors for a job that another worker holds, and for an unreachable server. */
const expected =
  /\block\b|not in the active state|Missing key for job|Connection is closed|ECONN|EPIPE|ETIMEDOUT|socket/i;
const isExpected = (error: Error): boolean =>
  expected.test(`${error.message} ${(error as { code?: string }).code ?? ""}`);

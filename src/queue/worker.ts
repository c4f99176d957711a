// startQueueWorker(): takes rollouts from the queue, plays them, and leaves the results for their collector.
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Job, Worker } from "bullmq";
import { messageOf } from "../core/errors.ts";
import type { Play, Played } from "../core/rollout.ts";
import type { Collections } from "./collections.ts";
import { connectQueue, toKeyPrefix, type QueueAddress } from "./connection.ts";
import {
  doneChannel,
  parseJob,
  queueName,
  toCollectionKey,
  parseTrouble,
  type QueuedCollection,
  type JobData,
} from "./job.ts";
import { createPlaying, mostStopping, orAfter, playUntil, type Playing } from "./playing.ts";
import { toConnectionName, formatName, shownName } from "./worker-name.ts";

export interface QueueWorkerOptions extends Pick<Collections, "openPlayer" | "readCut"> {
  address: QueueAddress;
  /** Number of rollouts played at once. */
  concurrency: number;
  /** Returns a collection's player that plays each rollout in its own process. */
  openAlone(collection: QueuedCollection): Play;
  /** How often a rollout may crash its own process before it fails. */
  maxCrashes: number;
  onEvent(event: WorkerEvent): void;
  /** Receives messages about the queue, for people. */
  say(text: string): void;
}

/** The outcome of a rollout on this worker. */
export interface WorkerEvent {
  /**
   * `refused`: not played here. `returned`: put back. `lost`: a different worker holds it. `crashed`: it crashed its
   * own process, and is played again.
   */
  type: "played" | "failed" | "refused" | "returned" | "lost" | "crashed";
  collection: string;
  session: string;
  reason?: string;
}

export interface QueueWorker {
  /** Its name in `queue status`. */
  name: string;
  /** Takes no new jobs, keeps playing for up to `grace` milliseconds, and puts unfinished ones back. */
  stop(grace: number): Promise<void>;
}

type RolloutJob = Job<JobData, Played>;

/** Why a job is put back. */
interface Why {
  type: "refused" | "returned";
  reason: string;
  times: number;
}

/** Milliseconds for which a silent worker keeps a rollout. */
const lockDuration = 6000;
const renewEvery = lockDuration / 4;
/** Milliseconds between searches for lost workers' rollouts. */
const stalledInterval = 2000;
/**
 * However often a worker is killed, that does not count as a failure of its rollouts, because only one of them can have
 * killed it. Every rollout that may have done so is then played in its own process, where a crash does count.
 */
const maxStalledCount = 1_000_000_000;
/** After this many lost workers, a rollout is played in its own process, whatever it was doing. */
const mostStalls = 3;
/** Milliseconds until a refused rollout is offered again, and until this worker takes a new one. */
const refusedFor = 250;
const restFor = 2000;
const longestRefused = 10_000;
/**
 * How often a rollout is put back because its store fails or a different process writes its session: about five minutes
 * in total.
 */
const mostReturns = 60;
const returnedFor = (times: number): number => Math.min(250 * 2 ** times, 5000);

/**
 * Takes rollouts until it is stopped, and holds a lock on each. If a lock is not renewed in time, a different worker
 * continues from the session's log, and this worker's result is discarded.
 */
export async function startQueueWorker(options: QueueWorkerOptions): Promise<QueueWorker> {
  const { address, concurrency, openPlayer, openAlone, readCut, maxCrashes, onEvent, say } = options;
  const name = formatName({ host: hostname(), pid: process.pid, since: Date.now(), concurrency });
  const connection = await connectQueue(address, say, toConnectionName(toKeyPrefix(address), name));
  const { DelayedError, UnrecoverableError, WaitingError } = connection.bullmq;
  const playing = new Map<string, Playing>();
  let isStopping = false;

  async function take(job: RolloutJob, token = ""): Promise<Played> {
    const id = job.id as string;
    if (!parseJob(job.data)) throw new UnrecoverableError("the job is not a rollout of Holdfast");
    const before = playing.get(id);
    // The lock was lost, and the job returned here before the loss was noticed.
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
        // Offered less and less often, because maybe no worker can play it. Randomised, so that one worker is not
        // offered all of them while the others wake up.
        const after = Math.min(refusedFor * 2 ** refusals, longestRefused) * (0.5 + Math.random() / 2);
        return await putBack(job, token, Math.round(after), why);
      } finally {
        // Pauses, so that other workers, which may be able to play it, come first.
        if (refusals < 2) await delay(restFor, undefined, { signal: own.signal }).catch(() => undefined);
      }
    }
    const began = performance.now();
    const isSuspect = job.stalledCounter > 0 && (await maySuspect(job));
    const ended = await (isSuspect ? playAlone(job, own.signal) : playUntil(play, rollout, own.signal));
    // Excludes the time spent waiting for a worker.
    const result: Played = { ...ended, seconds: (performance.now() - began) / 1000 };
    if (own.isLost) throw lost(job);
    if (result.outcome !== "failed") return result;
    if (own.signal.aborted) return putBack(job, token, 0, { type: "returned", reason: "the worker ends", times });
    const { kind, reason } = result.failure;
    // The store is unreachable, or a worker that lost the rollout wrote to its session.
    if (kind !== "store" || times >= mostReturns) return result;
    return putBack(job, token, returnedFor(times), { type: "returned", reason, times: times + 1 });
  }

  /** Returns whether a rollout may have crashed its last worker: its own code was running, or it lost many workers. */
  async function maySuspect({ data: { collection, rollout }, stalledCounter }: RolloutJob): Promise<boolean> {
    if (stalledCounter >= mostStalls) return true;
    return (await readCut(collection, rollout).catch(() => undefined)) !== undefined;
  }

  /** Plays a rollout in its own process. Plays it again if it crashes that process. */
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
      // Read by `queue status`, the collector and the next worker.
      await job.updateProgress({ type: "crashed", reason, times, worker: shownName(name) }).catch(() => undefined);
    }
  }

  /** Offers a job again, now or later. The thrown error tells BullMQ that the job is already handled. */
  async function putBack(job: RolloutJob, token: string, after: number, why?: Why): Promise<never> {
    try {
      if (after === 0) await job.moveToWait(token);
      else await job.moveToDelayed(Date.now() + after, token);
    } catch {
      throw lost(job);
    }
    if (why) {
      const { type, reason, times } = why;
      onEvent(toEvent(type, job, reason));
      // Read by `queue status` and by the next worker.
      await job.updateProgress({ type, reason, times, worker: shownName(name) }).catch(() => undefined);
    }
    throw after === 0 ? new WaitingError() : new DelayedError();
  }

  /** Reports a lost job. A different worker has it or will get it. */
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
    // After a lost connection.
    runRetryDelay: 1000,
    skipLockRenewal: true,
  });
  const renewing = setInterval(() => {
    for (const each of playing.values()) each.renew().catch(() => undefined);
  }, renewEvery);
  worker.on("error", (error) => {
    if (!isExpected(error)) say(`the queue failed: ${messageOf(error)}`);
  });
  const tell = ({ id, data }: RolloutJob): void => {
    // Only speeds things up: the collector also polls.
    const channel = doneChannel(connection.prefix, toCollectionKey(data.collection.run));
    connection.client.publish(channel, id as string).catch(() => undefined);
  };
  worker.on("completed", (job, played) => {
    const { kind, reason } = played.outcome === "failed" ? played.failure : {};
    onEvent(kind ? toEvent("failed", job, `${kind}: ${reason}`) : toEvent("played", job));
    tell(job);
  });
  worker.on("failed", (job, error) => {
    if (!job) return;
    if (!parseJob(job.data)) return say(`the queue has a job that is not Holdfast's: ${job.id}`);
    onEvent(toEvent("failed", job, messageOf(error)));
    tell(job);
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

/** BullMQ's errors for a job that a different worker holds, and for an unreachable server. */
const expected =
  /\block\b|not in the active state|Missing key for job|Connection is closed|ECONN|EPIPE|ETIMEDOUT|socket/i;
const isExpected = (error: Error): boolean =>
  expected.test(`${error.message} ${(error as { code?: string }).code ?? ""}`);

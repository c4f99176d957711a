// startQueueWorker(): takes rollouts from the queue, plays them, and leaves what came of them for their collection.
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Job, Worker } from "bullmq";
import { messageOf } from "../core/errors.ts";
import type { Play, Played } from "../core/rollout.ts";
import { connectQueue, prefixOf, type QueueAddress } from "./connection.ts";
import { channelOf, dataIn, queueName, runKeyOf, troubleIn, type Collection, type JobData } from "./job.ts";
import { createPlaying, mostStopping, orAfter, playUntil, type Playing } from "./playing.ts";
import { heartOf, nameOf, shownName } from "./worker-name.ts";

export interface QueueWorkerOptions {
  address: QueueAddress;
  /** How many rollouts at once. */
  concurrency: number;
  /** What plays the rollouts of a collection. Rejects with why this worker does not play it. */
  playerOf(collection: Collection): Promise<Play>;
  onEvent(event: WorkerEvent): void;
  /** Told what people should know about the queue. */
  say(text: string): void;
}

/** What became of a rollout here. */
export interface WorkerEvent {
  /** `refused`: not played here. `returned`: put back. `lost`: another worker has it. */
  type: "played" | "failed" | "refused" | "returned" | "lost";
  collection: string;
  session: string;
  reason?: string;
}

export interface QueueWorker {
  /** What `queue status` calls it. */
  name: string;
  /** Takes nothing any more, plays on for so many milliseconds, and puts back what is not over then. */
  stop(grace: number): Promise<void>;
}

type RolloutJob = Job<JobData, Played>;

/** Why a job is put back. */
interface Why {
  type: "refused" | "returned";
  reason: string;
  times: number;
}

/** How long a rollout stays with a worker that is not heard of, in milliseconds. */
const lockDuration = 6000;
const renewEvery = lockDuration / 4;
/**
 * Longer for one that was lost so several times: a tool or a verifier that keeps its process busy for longer than that, so
 * that nothing is heard of it, would be begun again and again for ever.
 */
const lockFor = (stalls: number): number => lockDuration * 2 ** Math.min(Math.max(stalls - 1, 0), 8);
/** How often it is looked for rollouts whose worker is gone. */
const stalledInterval = 2000;
/** To be killed is no failure of a rollout, however often. */
const maxStalledCount = 1_000_000_000;
/** How soon what is not played here is offered again, in milliseconds, and how long nothing is taken in its place. */
const refusedFor = 250;
const restFor = 2000;
const longestRefused = 10_000;
/** How often a rollout is put back as its store does not work or another writes its session: for about five minutes. */
const mostReturns = 60;
const returnedFor = (times: number): number => Math.min(250 * 2 ** times, 5000);

/**
 * Takes rollouts until it is stopped. While it plays one it holds a lock on it. If that is not renewed in time, the rollout
 * is given to another worker, which goes on from the session's log; what comes of it here does not count then.
 */
export async function startQueueWorker(options: QueueWorkerOptions): Promise<QueueWorker> {
  const { address, concurrency, playerOf, onEvent, say } = options;
  const name = nameOf({ host: hostname(), pid: process.pid, since: Date.now(), concurrency });
  const connection = await connectQueue(address, say, heartOf(prefixOf(address), name));
  const { DelayedError, UnrecoverableError, WaitingError } = connection.bullmq;
  const playing = new Map<string, Playing>();
  let isStopping = false;

  async function take(job: RolloutJob, token = ""): Promise<Played> {
    const id = job.id as string;
    if (!dataIn(job.data)) throw new UnrecoverableError("this is no rollout of Holdfast");
    const before = playing.get(id);
    // It was lost, and came back here before that was noticed.
    before?.lose();
    if (before || isStopping) return putBack(job, token, before ? returnedFor(0) : 0);
    const own = createPlaying(() => job.extendLock(token, lockFor(job.stalledCounter)));
    playing.set(id, own);
    try {
      if (job.stalledCounter > 0) await own.renew();
      return await played(job, token, own);
    } finally {
      playing.delete(id);
      own.end();
    }
  }

  async function played(job: RolloutJob, token: string, own: Playing): Promise<Played> {
    const { collection, rollout } = job.data;
    const trouble = troubleIn(job.progress);
    const timesOf = (type: Why["type"]): number => (trouble?.type === type ? trouble.times : 0);
    const times = timesOf("returned");
    const play = await playerOf(collection).catch((thrown: unknown) => messageOf(thrown));
    if (typeof play === "string") {
      const refusals = timesOf("refused");
      const why: Why = { type: "refused", reason: play, times: refusals + 1 };
      try {
        // Less and less often: it may be one that nobody will ever play. And not all at once, or one worker would be offered
        // them all, one after the other, while the others still wake up.
        const after = Math.min(refusedFor * 2 ** refusals, longestRefused) * (0.5 + Math.random() / 2);
        return await putBack(job, token, Math.round(after), why);
      } finally {
        // So that others come first, who may play it.
        if (refusals < 2) await delay(restFor, undefined, { signal: own.signal }).catch(() => undefined);
      }
    }
    const began = performance.now();
    const ended = await playUntil(play, rollout, own.signal);
    // Without the time that it waited for a worker.
    const result: Played = { ...ended, seconds: (performance.now() - began) / 1000 };
    if (own.isLost) throw lost(job);
    if (!result.failure) return result;
    if (own.signal.aborted) return putBack(job, token, 0, { type: "returned", reason: "the worker ends", times });
    const { kind, reason } = result.failure;
    // Of a store that is away, and of a session that a worker who had lost it has written to.
    if (kind !== "store" || times >= mostReturns) return result;
    return putBack(job, token, returnedFor(times), { type: "returned", reason, times: times + 1 });
  }

  /** Offers a job again, at once or later. What is thrown tells BullMQ that it has been seen to. */
  async function putBack(job: RolloutJob, token: string, after: number, why?: Why): Promise<never> {
    try {
      if (after === 0) await job.moveToWait(token);
      else await job.moveToDelayed(Date.now() + after, token);
    } catch {
      throw lost(job);
    }
    if (why) {
      const { type, reason, times } = why;
      onEvent(eventOf(type, job, reason));
      // For `queue status`, and for the next worker.
      await job.updateProgress({ type, reason, times, worker: shownName(name) }).catch(() => undefined);
    }
    throw after === 0 ? new WaitingError() : new DelayedError();
  }

  /** It is another worker's, or will be: nothing is to be done with it here. */
  function lost(job: RolloutJob): Error {
    onEvent(eventOf("lost", job));
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
    // After the connection was lost.
    runRetryDelay: 1000,
    skipLockRenewal: true,
  });
  const renewing = setInterval(() => {
    for (const each of playing.values()) each.renew().catch(() => undefined);
  }, renewEvery);
  worker.on("error", (error) => {
    if (!isExpected(error)) say(`the queue: ${messageOf(error)}`);
  });
  const tell = ({ id, data }: RolloutJob): void => {
    // It would be found without that too, only later.
    const channel = channelOf(connection.prefix, runKeyOf(data.collection.run));
    connection.client.publish(channel, id as string).catch(() => undefined);
  };
  worker.on("completed", (job, { failure }) => {
    onEvent(failure ? eventOf("failed", job, `${failure.kind}: ${failure.reason}`) : eventOf("played", job));
    tell(job);
  });
  worker.on("failed", (job, error) => {
    if (!job) return;
    if (!dataIn(job.data)) return say(`the queue has a job that is not Holdfast's: ${job.id}`);
    onEvent(eventOf("failed", job, messageOf(error)));
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

function eventOf(type: WorkerEvent["type"], { data }: RolloutJob, reason?: string): WorkerEvent {
  const { collection, rollout } = data;
  return { type, collection: collection.title, session: rollout.session, ...(reason !== undefined && { reason }) };
}

/** What BullMQ says about a job that is another worker's by now, and about a server that is away. */
const expected =
  /\block\b|not in the active state|Missing key for job|Connection is closed|ECONN|EPIPE|ETIMEDOUT|socket/i;
const isExpected = (error: Error): boolean =>
  expected.test(`${error.message} ${(error as { code?: string }).code ?? ""}`);

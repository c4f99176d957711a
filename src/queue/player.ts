// openQueuePlayer(): has workers elsewhere play the rollouts of a collection, and gives what comes back.
import type { Job } from "bullmq";
import { messageOf } from "../core/errors.ts";
import { equalJson } from "../core/json.ts";
import type { Play, Played, Rollout } from "../core/rollout.ts";
import { connectQueue, type QueueAddress } from "./connection.ts";
import { channelOf, jobIdOf, optionsOf, queueName, runKeyIn, runKeyOf, troubleIn } from "./job.ts";
import type { Collection, JobData, RolloutQueue } from "./job.ts";

export interface QueuePlayerOptions {
  address: QueueAddress;
  collection: Collection;
  /** Told what people should know: that nobody plays, that the queue is away. */
  say(text: string): void;
}

export interface QueuePlayer {
  play: Play;
  /** Takes what nobody has begun out of the queue, if it was cancelled, and what is left over, if it was not. */
  stop(): Promise<void>;
}

interface Waiting {
  rollout: Rollout;
  /** Settles when all that was begun to put it into the queue is over. */
  putting: Promise<void>;
  end(played: Played): void;
}

/** How often it is looked at all jobs, in milliseconds: what is said about one may be missed. */
const lookEvery = 1000;
/** How many at once. */
const lookAt = 500;
/** After how long without a result it is said why, in milliseconds. */
const quiet = 5000;
const sayEvery = 30_000;

/**
 * A rollout is a job, known by its session: one that is in the queue already is not added again, and one that was
 * played while nobody waited gives its result at once. Results stay in the queue until they were given.
 */
export async function openQueuePlayer({ address, collection, say }: QueuePlayerOptions): Promise<QueuePlayer> {
  const connection = await connectQueue(address, say);
  const queue: RolloutQueue = new connection.bullmq.Queue(queueName, optionsOf(connection));
  queue.on("error", () => undefined);
  const waiting = new Map<string, Waiting>();
  /** What is taken out of the queue. */
  const leaving = new Set<Promise<unknown>>();
  let isCancelled = false;
  let isOver = false;
  let newest = Date.now();

  const listener = connection.listener();
  listener.on("message", (_channel: string, id: string) => void look(id));
  const mine = runKeyOf(collection.run);
  await listener.subscribe(channelOf(connection.prefix, mine));
  let timer = setTimeout(() => void lookAround(), lookEvery);

  /** Puts a rollout into the queue, unless it is there. */
  async function put(id: string, rollout: Rollout): Promise<void> {
    const job = await queue.getJob(id);
    if (job?.finishedOn !== undefined) return take(id, job);
    const data: JobData = { collection, rollout };
    if (!job) await queue.add(collection.title, data, { jobId: id });
    // Somebody wants to go on with other settings.
    else if (!equalJson({ ...job.data.collection }, { ...collection })) await job.updateData(data);
  }

  function take(id: string, { returnvalue, failedReason }: Job<JobData, Played>): void {
    const found = waiting.get(id);
    if (!found) return;
    newest = Date.now();
    found.end(returnvalue ?? failed(found.rollout, failedReason ?? "the worker gave no result"));
    // Whoever waited for it writes it down in the meantime: if this process is killed before, it is taken again.
    setImmediate(() => leave(queue.remove(id)));
  }

  /** Takes the result of a job, if it has one, and puts it into the queue again if the queue has lost it. */
  async function look(id: string): Promise<void> {
    const found = waiting.get(id);
    if (!found || isOver) return;
    found.putting = found.putting.then(() => putIfWanted(id, found));
    await found.putting;
  }

  async function putIfWanted(id: string, wanted: Waiting): Promise<void> {
    if (waiting.get(id) === wanted) await put(id, wanted.rollout).catch(complain);
  }

  const complaints = new Map<string, number>();

  /** What the queue does not take now, for want of memory say, it is offered again. The same is said only now and then. */
  function complain(thrown: unknown): void {
    const text = `the queue at ${address.shown} refuses: ${messageOf(thrown)}`;
    if (isOver || Date.now() - (complaints.get(text) ?? 0) < sayEvery) return;
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
    // Of very many it takes long: no more than a tenth of the time is spent with it.
    const pause = Math.max(lookEvery, 10 * (Date.now() - began));
    if (!isOver) timer = setTimeout(() => void lookAround(), pause);
  }

  async function lookIfDone(id: string): Promise<void> {
    if (isOver) return;
    const state = await queue.getJobState(id);
    if (["completed", "failed", "unknown"].includes(state)) await look(id);
  }

  const told = new Set<string>();

  /** Nothing has come back for a while. That is as it should be where episodes are long. */
  async function sayWhy(): Promise<void> {
    newest = Date.now();
    if ((await queue.getWorkersCount()) === 0) {
      say(`no worker takes part; start some with: holdfast worker --queue ${address.typed}`);
      return;
    }
    const ids = await queue.getRanges(["delayed"], 0, lookAt);
    const id = ids.find((each) => runKeyIn(each) === mine);
    const trouble = id === undefined ? undefined : troubleIn((await queue.getJob(id))?.progress);
    if (!trouble || told.has(trouble.reason)) return;
    told.add(trouble.reason);
    say(`worker ${trouble.worker} has put rollouts back: ${trouble.reason}`);
  }

  function leave(work: Promise<unknown>): void {
    const leaves = work.catch(() => undefined).finally(() => leaving.delete(leaves));
    leaving.add(leaves);
  }

  /** What a worker has begun, it plays to the end: the result is there when the collection goes on. */
  async function withdraw(id: string): Promise<void> {
    const state = await queue.getJobState(id);
    if (state === "waiting" || state === "delayed") await queue.remove(id);
  }

  /** What was left by a process that was killed just when it had written something down. */
  async function clear(): Promise<void> {
    const ids = await queue.getRanges(["completed", "failed", "wait", "delayed"], 0, -1);
    await Promise.all(ids.filter((id) => runKeyIn(id) === mine).map((id) => queue.remove(id)));
  }

  return {
    play: (rollout, signal) =>
      new Promise((resolve) => {
        const id = jobIdOf(collection.run, rollout.session);
        const own: Waiting = {
          rollout,
          putting: Promise.resolve(),
          end(played) {
            if (waiting.get(id) !== own) return;
            waiting.delete(id);
            signal.removeEventListener("abort", cancel);
            resolve(played);
          },
        };
        const cancel = (): void => {
          isCancelled = true;
          own.end(failed(rollout, "it was cancelled"));
          // Not before it is there: it would stay behind.
          leave(own.putting.then(() => withdraw(id)));
        };
        if (waiting.size === 0) newest = Date.now();
        waiting.set(id, own);
        signal.addEventListener("abort", cancel, { once: true });
        if (signal.aborted) cancel();
        else void look(id);
      }),
    async stop() {
      await Promise.all(leaving);
      if (!isCancelled) await clear();
      isOver = true;
      clearTimeout(timer);
      await queue.close();
      connection.close();
    },
  };
}

function failed({ session }: Rollout, reason: string): Played {
  return { fields: {}, session, failure: { kind: "internal", reason } };
}

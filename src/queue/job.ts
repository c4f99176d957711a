// A job in the queue: one rollout from a collection, its id and its options.
import { createHash } from "node:crypto";
import type { Queue, QueueOptions } from "bullmq";
import type { Json } from "../core/json.ts";
import type { Played, Rollout } from "../core/rollout.ts";
import type { Connection } from "./connection.ts";

/** The part of a collection that a worker needs: its id and its settings. */
export interface QueuedCollection {
  run: string;
  /** Display name. */
  title: string;
  /** Settings of the worker's player; see PlaySettings. */
  settings: { [name: string]: Json };
}

export interface JobData {
  collection: QueuedCollection;
  rollout: Rollout;
}

export type RolloutQueue = Queue<JobData, Played, string>;

/** Returns a job's data, or undefined if a different program wrote the job. */
export function parseJob(data: unknown): JobData | undefined {
  const { collection, rollout } = Object(data) as Partial<JobData>;
  const { run, title, settings } = Object(collection) as Partial<QueuedCollection>;
  const { session, row } = Object(rollout) as Partial<Rollout>;
  const isOurs =
    [run, title, session].every((text) => typeof text === "string") &&
    [settings, row].every((fields) => typeof fields === "object" && fields !== null);
  return isOurs ? (data as JobData) : undefined;
}

/** A problem with a job, and how often it occurred. Stored as the job's progress. */
export interface Trouble {
  /** `refused`, `returned`: the job is back in the queue. `crashed`: the job crashed its process, and runs again. */
  type: "refused" | "returned" | "crashed";
  reason: string;
  worker: string;
  times: number;
}

export const queueName = "rollouts";

/** Seconds for which a result is kept for its collector: a week. */
export const kept = 7 * 24 * 3600;

/** Number of events that BullMQ keeps: few, because nothing reads them, and each may contain a whole transcript. */
const events = 10;

export function queueOptions({ client, prefix }: Connection): QueueOptions {
  return {
    connection: client,
    prefix,
    streams: { events: { maxLen: events } },
    defaultJobOptions: { attempts: 1, removeOnComplete: { age: kept }, removeOnFail: { age: kept } },
  };
}

/** Returns the same id each time a collection is resumed, so a rollout is never queued twice. */
export const toJobId = (run: string, session: string): string => `${toCollectionKey(run)}.${session}`;

/** Prefix of the job ids of a collection. */
export const toCollectionKey = (run: string): string => createHash("sha256").update(run).digest("hex").slice(0, 12);

export const parseCollectionKey = (jobId: string): string => jobId.split(".", 1)[0] ?? "";

/** The channel that announces a collection's finished jobs. Its collector subscribes while it runs. */
export const doneChannel = (prefix: string, runKey: string): string => `${prefix}:done:${runKey}`;

/** The key that tells workers that a collection is over: nobody takes its results any more. */
export const overKey = (prefix: string, runKey: string): string => `${prefix}:over:${runKey}`;

export function parseTrouble(progress: unknown): Trouble | undefined {
  const { type = "returned", reason, worker, times } = Object(progress) as Partial<Trouble>;
  if (typeof reason !== "string" || typeof worker !== "string" || typeof times !== "number") return undefined;
  return { type, reason, worker, times };
}

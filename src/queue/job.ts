// A job of the queue: one rollout of a collection, and how it is known.
import { createHash } from "node:crypto";
import type { Queue, QueueOptions } from "bullmq";
import type { Json } from "../core/json.ts";
import type { Played, Rollout } from "../core/rollout.ts";
import type { Connection } from "./connection.ts";

/** What a collection is to a worker: its name, and what is needed to play it. */
export interface Collection {
  run: string;
  /** For people. */
  title: string;
  /** What the worker makes its player of. */
  settings: { [name: string]: Json };
}

export interface JobData {
  collection: Collection;
  rollout: Rollout;
}

export type RolloutQueue = Queue<JobData, Played, string>;

/** What a job is about; undefined where somebody else has put something into the queue. */
export function dataIn(data: unknown): JobData | undefined {
  const { collection, rollout } = Object(data) as Partial<JobData>;
  const { run, title, settings } = Object(collection) as Partial<Collection>;
  const { session, row } = Object(rollout) as Partial<Rollout>;
  const isOurs =
    [run, title, session].every((text) => typeof text === "string") &&
    [settings, row].every((fields) => typeof fields === "object" && fields !== null);
  return isOurs ? (data as JobData) : undefined;
}

/** Why a job was put back the last time, and how often it was. It is kept as the job's progress. */
export interface Trouble {
  type: "refused" | "returned";
  reason: string;
  worker: string;
  times: number;
}

export const queueName = "rollouts";

/** How long a result waits for its collection, in seconds: a week. */
const kept = 7 * 24 * 3600;

/** How many events BullMQ keeps. Nobody reads them, and each may hold a whole transcript. */
const events = 10;

export function optionsOf({ client, prefix }: Connection): QueueOptions {
  return {
    connection: client,
    prefix,
    streams: { events: { maxLen: events } },
    defaultJobOptions: { attempts: 1, removeOnComplete: { age: kept }, removeOnFail: { age: kept } },
  };
}

/** The same whenever the collection goes on, so that nothing is put into the queue twice. */
export const jobIdOf = (run: string, session: string): string => `${runKeyOf(run)}.${session}`;

/** What the ids of a collection's jobs begin with. */
export const runKeyOf = (run: string): string => createHash("sha256").update(run).digest("hex").slice(0, 12);

/** The collection of a job, by its id. */
export const runKeyIn = (jobId: string): string => jobId.split(".", 1)[0] ?? "";

/** Where it is said that a job of a collection is done. Its collector listens there for as long as it is there. */
export const channelOf = (prefix: string, runKey: string): string => `${prefix}:done:${runKey}`;

/** What a job's progress says. */
export function troubleIn(progress: unknown): Trouble | undefined {
  const { type = "returned", reason, worker, times } = Object(progress) as Partial<Trouble>;
  if (typeof reason !== "string" || typeof worker !== "string" || typeof times !== "number") return undefined;
  return { type, reason, worker, times };
}

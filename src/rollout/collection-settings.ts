// CollectionSettings: the tasks, repeats, model, agent and files of a collection.
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Model } from "../core/model.ts";
import type { Branching } from "./tree.ts";

/** An environment, or the folder, file or package that exports one. */
export type Target = string | AnyEnvironment;

export interface CollectionSettings {
  tasks?: string;
  /** A model or its name, for example `chat:llama3.2`. */
  model: string | Model;
  /** An agent, the folder, file or package that exports one, or the URL of a server with POST /run. */
  agent?: string | Agent;
  /** URL of a server with the environment. */
  server?: string;
  out: string;
  store?: string;
  /** Queue from which workers take the rollouts; undefined to play them here. */
  queue?: string;
  repeats: number;
  /** Where episodes are forked. */
  branch?: Branching[];
  /** Rollouts played or queued at once. */
  concurrency: number;
  attempts: number;
  maxSteps?: number;
  timeout?: number;
  /** Milliseconds until a reply of a server or a remote agent must be complete. Default: ten minutes; four hours. */
  replyTimeout?: number;
  /** Milliseconds between two parts of a reply. Default: two minutes. */
  replyIdle?: number;
  /** Megabytes of the largest reply. Default: 64. */
  maxReply?: number;
  limit?: number;
  seed: number;
  /** Default "per-task". */
  randomSeed?: RandomSeedPolicy;
  temperature?: number;
  resume?: boolean;
  force?: boolean;
  json?: boolean;
}

/**
 * Which rollouts share the environment's random numbers: all repeats of a task, so that their rewards differ only by what
 * the model did, or none.
 */
export type RandomSeedPolicy = "per-task" | "per-rollout";

/** Tells a server's URL from a folder, file or package. */
export function isUrl(target: unknown): target is string {
  return typeof target === "string" && /^https?:\/\//.test(target);
}

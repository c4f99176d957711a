// CollectionSettings: a collection's tasks, repeats, model, agent and files.
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Json } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import type { Branching } from "./tree.ts";

/** An environment, or the folder, file or package that exports one. */
export type Target = string | AnyEnvironment;

/** The settings that outcomes depend on, and the concurrency. */
export interface SourceSettings {
  /** A model or its name, for example `chat:llama3.2`. Default "scripted". */
  model: string | Model;
  /**
   * An agent, the folder, file or package that exports one, or the URL of a server with POST /run. Default: the
   * built-in agent.
   */
  agent?: string | Agent;
  /**
   * The agent's name in rows and metrics. NeMo Gym uses it to find the agent's server. Default: its own name, or
   * "agent".
   */
  agentName?: string;
  /** URL of a server with the environment. Default: the environment runs here. */
  server?: string;
  /** Rollouts played or queued at once. Default 32. */
  concurrency: number;
  /** Maximum number of model answers in an episode. Default: the agent's limit. */
  maxSteps?: number;
  /** Milliseconds that an episode may take. Default: unlimited. */
  timeout?: number;
  /**
   * Milliseconds within which a reply must be complete, from a server or from a remote agent. Default: ten minutes;
   * four hours.
   */
  replyTimeout?: number;
  /** Milliseconds between two parts of a reply. Default: two minutes. */
  replyIdle?: number;
  /** Maximum size of a reply in megabytes. Default: 64. */
  maxReply?: number;
  /** Random seed for environments, the random model and confidence intervals. Default 0. */
  seed: number;
  temperature?: number;
  topP?: number;
  /** Maximum number of tokens in each answer. */
  maxTokens?: number;
  /** The plain agent's system prompt, in place of the row's `instructions`. */
  system?: string;
  /** Fields for every request to the model, such as `{ reasoning: { effort: "low" } }`. */
  request?: { [field: string]: Json };
  /** Added to every row, as in `{ iteration: 7 }`. */
  labels?: { [name: string]: Json };
}

export interface CollectionSettings extends SourceSettings {
  /** The tasks file. Default: `tasks.jsonl` next to the environment. */
  tasks?: string;
  /** The rows file; its name must end in `.jsonl`. */
  out: string;
  /** URL of the store for the sessions. Default: a SQLite file next to `out`. */
  store?: string;
  /** Queue from which workers take the rollouts; undefined to play them here. */
  queue?: string;
  /** How often each task is played. Default 1. */
  repeats: number;
  /** Where episodes are forked. Default: nowhere. */
  branch?: Branching[];
  /** Maximum number of attempts for a rollout that fails. Default 3. */
  attempts: number;
  /** Plays only this many rows of the tasks file. Default: all. */
  limit?: number;
  /** Default "per-task". */
  randomSeed?: RandomSeedPolicy;
  /** Continue even if the first rollouts fail for a reason that would hit all of them. Default false. */
  keepGoing?: boolean;
  /** Continues a collection. Default false. */
  resume?: boolean;
  /** Continues even if settings changed. Default false. */
  force?: boolean;
  json?: boolean;
}

/**
 * Which rollouts share the environment's random numbers: all repeats of a task, or none. If repeats share them, their
 * rewards differ only because of the model.
 */
export type RandomSeedPolicy = "per-task" | "per-rollout";

/** Distinguishes a server's URL from a folder, file or package. */
export function isUrl(target: unknown): target is string {
  return typeof target === "string" && /^https?:\/\//.test(target);
}

// CollectionSettings: a collection's tasks, repeats, model, agent and files.
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Json } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import type { Branching } from "./tree.ts";

/** An environment, or the folder, file or package that exports it. */
export type Target = string | AnyEnvironment;

/** The settings that outcomes depend on, and the concurrency. */
export interface SourceSettings {
  /** A model or its name, for example `chat:llama3.2`. Default "scripted". */
  model: string | Model;
  /** An agent, its folder, file or package, or the URL of a server with POST /run. Default: the built-in agent. */
  agent?: string | Agent;
  /** The agent's name in rows and metrics, by which NeMo Gym finds its server. Default: its own name, or "agent". */
  agentName?: string;
  /** A program that plays as the agent: `claude-code`, `codex`, or a command. Default: none. */
  harness?: string;
  /** Names of this process's environment variables that the harness gets, in addition to PATH and the locale. */
  harnessEnv?: string[];
  /**
   * URL of a server with the environment. A URL that starts with `gymnasium+` has `/reset` and `/step`. Default: the
   * environment runs in this process.
   */
  server?: string;
  /** Maximum number of rollouts that run, or are queued, at the same time. Default 32. */
  concurrency: number;
  /** Maximum number of model answers in an episode. Default: the agent's limit. */
  maxSteps?: number;
  /** With `harness`: maximum number of tokens in all requests and answers of an episode. Default: unlimited. */
  maxTotalTokens?: number;
  /** With `harness`: maximum cost of an episode, if the model's server reports costs. Default: unlimited. */
  maxCost?: number;
  /** Milliseconds that an episode may take. Default: unlimited. */
  timeout?: number;
  /** Milliseconds for a complete reply of a server or a remote agent. Default: ten minutes, or four hours. */
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
  /** The plain agent's system prompt, instead of the row's `instructions`. */
  system?: string;
  /** Fields for every request to the model, such as `{ reasoning: { effort: "low" } }`. */
  request?: { [field: string]: Json };
  /** Labels for every row, as in `{ iteration: 7 }`. */
  labels?: { [name: string]: Json };
}

export interface CollectionSettings extends SourceSettings {
  /** The tasks file. Default: `tasks.jsonl` next to the environment. */
  tasks?: string;
  /** The rows file; its name must end in `.jsonl`. */
  out: string;
  /** URL of the store for the sessions. Default: a SQLite file next to `out`. */
  store?: string;
  /** Queue from which workers take the rollouts. Default: the rollouts run in this process. */
  queue?: string;
  /** Number of rollouts per task. Default 1. */
  repeats: number;
  /** Where episodes are forked. Default: nowhere. */
  branch?: Branching[];
  /** Maximum number of attempts for a rollout that fails. Default 3. */
  attempts: number;
  /** Runs only this many rows of the tasks file. Default: all. */
  limit?: number;
  /** Which rollouts share random numbers. Default "per-task". */
  randomSeed?: RandomSeedPolicy;
  /** Continue even if the first rollouts fail for a reason that would hit all of them. Default false. */
  keepGoing?: boolean;
  /** Continues a collection. Default false. */
  resume?: boolean;
  /** Continues a collection even if settings changed. Default false. */
  force?: boolean;
}

/**
 * Which rollouts share the environment's random numbers: all repeats of a task, or none. If repeats share them, their
 * rewards differ only because of the model.
 */
export type RandomSeedPolicy = "per-task" | "per-rollout";

/** Distinguishes a server's URL from a folder, file or package. */
export function isUrl(target: unknown): target is string {
  return typeof target === "string" && /^(?:gymnasium\+)?https?:\/\//.test(target);
}

// The settings of a collection: what is played, how often, by which model, and where it is written.
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Model } from "../core/model.ts";
import type { Branching } from "./tree.ts";

/** An environment, or the folder, file or package that has one. */
export type Target = string | AnyEnvironment;

export interface CollectionSettings {
  tasks?: string;
  /** A model, or its name, as in `chat:llama3.2`. */
  model: string | Model;
  /** An agent, the folder, file or package that has one, or the address of a server with POST /run. */
  agent?: string | Agent;
  /** The address of a server that has the environment. */
  server?: string;
  out: string;
  store?: string;
  /** Where workers take the rollouts from; undefined if they are played here. */
  queue?: string;
  repeats: number;
  /** Where episodes are forked. */
  branch?: Branching[];
  /** Played at once, or handed out at once. */
  concurrency: number;
  attempts: number;
  maxSteps?: number;
  timeout?: number;
  limit?: number;
  seed: number;
  temperature?: number;
  resume?: boolean;
  force?: boolean;
  json?: boolean;
}

/** Tells the address of a server from a folder, a file or a package. */
export function isUrl(target: unknown): target is string {
  return typeof target === "string" && /^https?:\/\//.test(target);
}

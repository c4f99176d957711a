// The settings of a collection: what is played, how often, by which model, and where it is written.
import type { Branching } from "./tree.ts";

export interface CollectionSettings {
  tasks?: string;
  model: string;
  agent?: string;
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

export function isUrl(target: string | undefined): target is string {
  return target !== undefined && /^https?:\/\//.test(target);
}

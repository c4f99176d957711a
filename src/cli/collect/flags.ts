// What holdfast collect was told.
import type { Branching } from "../../rollout/tree.ts";

export interface CollectFlags {
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

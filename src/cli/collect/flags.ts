// What holdfast collect was told.

export interface CollectFlags {
  tasks?: string;
  model: string;
  agent?: string;
  /** The address of a server that has the environment. */
  server?: string;
  out: string;
  store?: string;
  repeats: number;
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

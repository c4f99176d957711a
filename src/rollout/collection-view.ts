// Types for the data that the viewer reads, the same from a server and from a bundle of files.
import type { NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";

/** The reply of GET /v1/about. */
export interface About {
  version: string;
  environments: EnvironmentAbout[];
  agents: AgentAbout[];
  /** Models that can continue a session: the names that /play accepts. */
  models: string[];
  runs: CollectionAbout[];
  /** True if the server has curves of training runs. */
  hasCurves?: boolean;
}

export interface EnvironmentAbout {
  name: string;
  description: string;
  /** The path prefix of the environment's /v1, for example "/counter". */
  at: string;
  /**
   * True if only the environment's name is known. Its sessions can be read, forked and closed, but not called or
   * verified.
   */
  bare: boolean;
}

export interface AgentAbout {
  name: string;
  description: string;
  at: string;
}

export interface CollectionAbout {
  /** The collection's id on this server: "0" is the first file. */
  run: string;
  /** Display name: the file name without its extension. */
  name: string;
  file: string;
  environment: string | null;
  /** The model's name; null if it was not recorded. */
  model: string | null;
}

/** A collection's totals, for one line in a list of collections. The reply of GET /v1/runs/{run}/totals. */
export interface CollectionTotals {
  rollouts: number;
  tasks: number;
  failed: number;
  /** The scored rollouts' mean reward; null if there are none. */
  reward: number | null;
  tokens: number | null;
  /** When the first rollout started, in seconds since 1970. */
  began: number | null;
  /** From the start of the first rollout to the end of the last, in seconds. */
  wallSeconds: number | null;
}

/** The reply of GET /v1/runs/{run}. The path and the field names use "run", the older word for a collection. */
export interface CollectionDetails extends CollectionAbout {
  /** The settings that the rows were collected with, by name; {} if there is no record next to the file. */
  settings: { [name: string]: Json };
  /** True if the server can read the sessions of the rows. */
  sessions: boolean;
}

/** A row of a collection, reduced to the columns of a table. One line of GET /v1/runs/{run}/rows is a list of these. */
export interface RowSummary {
  /** The row's index in the collection, from 0. */
  row: number;
  task: number | null;
  repeat: number | null;
  /** The row's path in the tree of forks, for example "0.2". */
  branch: string | null;
  attempt: number | null;
  /** null if the rollout failed or is masked. */
  reward: number | null;
  outcome: "scored" | "masked" | "failed";
  /** The kind of failure. */
  kind: string | null;
  /** The limit that ended the rollout. */
  stopped: string | null;
  /** Number of model answers. */
  steps: number;
  calls: number;
  tokens: number | null;
  /** True if the tokens were estimated, because the model does not report them. */
  isEstimate: boolean;
  seconds: number | null;
  /** When the rollout started, in seconds since 1970. */
  began: number | null;
  /** Distinct names of the tools called. */
  tools: string[];
  /** The start of the user's request. */
  text: string;
  /** The start of the last answer. */
  answer: string;
  /** The start of the reason of a failure. */
  reason: string | null;
  /** Numbers that verify returned in addition to the reward. */
  metrics: { [name: string]: number };
  session: string | null;
  /** The session that this rollout's session was forked from. */
  parent: string | null;
}

/** The reply of GET /v1/runs/{run}/rows/{row}: the row as stored in the file. */
export interface WholeRow {
  row: TaskRow;
}

/** A collection that can be viewed. */
export interface Collection {
  readonly details: CollectionDetails;
  /** Yields row summaries in file order, in batches. Every call starts from the beginning. */
  rows(): AsyncIterable<RowSummary[]>;
  /** Yields the indexes of the rows that contain a string, in batches. A batch may be empty. */
  search(text: string): AsyncIterable<number[]>;
  /** Reads the whole file, unless it is unchanged since the last call. The result is incomplete after an abort. */
  totals(signal: AbortSignal): Promise<CollectionTotals>;
  /** Returns the complete row, or undefined if the index does not exist. */
  row(row: number): Promise<TaskRow | undefined>;
}

/** A bundle's `about` data. A bundle uses files instead of a server. It has no environments, agents or models. */
export interface BundleAbout extends About {
  bundle: true;
  runs: BundleCollection[];
}

export interface BundleCollection extends CollectionDetails {
  rows: number;
  /** Number of data files `runs/{run}/rows-N`, each an array of BundleRow, from N = 0. */
  chunks: number;
  /** Number of data files `runs/{run}/part-N`, each an array of BundlePart, from N = 0. */
  parts: number;
  totals: CollectionTotals;
}

export interface BundleRow extends RowSummary {
  /** The N of the `part-N` that contains the complete row. */
  part: number;
}

export interface BundlePart {
  /** The row's index in the collection. */
  row: number;
  content: TaskRow;
  /** The complete log of the row's session; null if the store does not have it. */
  events: NumberedEvent[] | null;
}

// What the viewer is told of a server and of its runs: the same from a server and from a bundle of files.
import type { NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";

/** The reply of GET /v1/about. */
export interface About {
  version: string;
  environments: EnvironmentAbout[];
  agents: AgentAbout[];
  /** Who can go on with a session: the names that /play takes. */
  models: string[];
  runs: RunAbout[];
}

export interface EnvironmentAbout {
  name: string;
  description: string;
  /** The prefix that its /v1 is under: "/counter". */
  at: string;
  /** Only its name is known: its logs can be read, forked and closed, and nothing can be called or verified. */
  bare: boolean;
}

export interface AgentAbout {
  name: string;
  description: string;
  at: string;
}

export interface RunAbout {
  /** Names it here: "0" is the first file that was given. */
  run: string;
  /** For people: the name of its file, without the ending. */
  name: string;
  file: string;
  environment: string | null;
}

/** The reply of GET /v1/runs/{run}. */
export interface RunDetails extends RunAbout {
  /** What it was collected with, by name; {} where no record lies beside the file. */
  settings: { [name: string]: Json };
  /** Whether the sessions of its rows can be read here. */
  sessions: boolean;
}

/** A row of a file of rollouts, as far as a table shows it. A list of them is one line of GET /v1/runs/{run}/rows. */
export interface RowSummary {
  /** Its place in the run, from 0. */
  row: number;
  task: number | null;
  repeat: number | null;
  /** The way to it where episodes were forked: "0.2". */
  branch: string | null;
  attempt: number | null;
  /** null where it failed or is masked. */
  reward: number | null;
  outcome: "scored" | "failed";
  /** Of a failure. */
  kind: string | null;
  /** The limit that ended it. */
  stopped: string | null;
  /** How often the model answered. */
  steps: number;
  calls: number;
  tokens: number | null;
  seconds: number | null;
  /** The names of what was called, each once. */
  tools: string[];
  /** The beginning of what the user asked, else of the last answer. */
  text: string;
  session: string | null;
  /** The session that it was forked from. */
  parent: string | null;
}

/** The reply of GET /v1/runs/{run}/rows/{row}: the row as it is in the file. */
export interface WholeRow {
  row: TaskRow;
}

/** A run that can be looked at. */
export interface Run {
  readonly details: RunDetails;
  /** In the order of the run, some at a time. Each time from the beginning. */
  rows(): AsyncIterable<RowSummary[]>;
  /** A row whole; undefined if there is none of that number. */
  row(row: number): Promise<TaskRow | undefined>;
}

/** The data `about` of a bundle: files in the place of a server. It has no environments, agents or models. */
export interface BundleAbout extends About {
  bundle: true;
  runs: BundleRun[];
}

export interface BundleRun extends RunDetails {
  /** How many rows it has. */
  rows: number;
  /** How many data `runs/{run}/rows-N` it has, each an array of BundleRow, from N = 0. */
  chunks: number;
  /** How many data `runs/{run}/part-N` it has, each an array of BundlePart, from N = 0. */
  parts: number;
}

export interface BundleRow extends RowSummary {
  /** The N of the `part-N` that has it whole. */
  part: number;
}

export interface BundlePart {
  /** The row's place in the run. */
  row: number;
  content: TaskRow;
  /** The log of its session, whole; null where the store does not have it. */
  events: NumberedEvent[] | null;
}

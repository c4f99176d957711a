// Rollouts: a task that is played, and what came of it.
import type { Json } from "./json.ts";
import { faultInItems, type Item } from "./model.ts";

/** One row of a data set. */
export type TaskRow = { [field: string]: Json };

/** One episode to be played. */
export interface Rollout {
  task: number;
  /** Which of the task's rollouts it is. Where episodes are forked all continuations count: it is that of the first. */
  repeat: number;
  /** 0 at first; a rollout that failed is played again, in a session of its own. */
  attempt: number;
  row: TaskRow;
  /** The id of its conversation: the same whenever the collection goes on. */
  session: string;
  /** Where the environment's random numbers come from: the same in every collection of that seed, and every attempt. */
  random: number;
  /** The tool step after which it is forked. Its continuations are scored, and it is not. */
  forkAfter?: number;
  /** Of a continuation: what it goes on with. */
  origin?: Origin;
}

/** Where an episode was forked. */
export interface Origin {
  /** The way to the continuation: "0.2" is the third one of the first one. */
  branch: string;
  /** The conversation of the parent, and the tool step after which it was forked. */
  conversation: string;
  step: number;
  /** The session of its environment, and the version that it was forked at. */
  session: string;
  version: number;
}

/**
 * Why a rollout has no reward. What the model did wrong is no failure: it is scored. Nor is a tool that throws: the model
 * reads what it threw and goes on. Of a tool it is a failure if its answer was lost.
 */
export type FailureKind = "task" | "seed" | "model" | "agent" | "tool" | "store" | "verify" | "timeout" | "internal";

export interface RolloutFailure {
  kind: FailureKind;
  reason: string;
}

interface PlayedEpisode {
  /** Added to the row: the response, and the verdict if it was scored. */
  fields: TaskRow;
  /** The session of the environment. */
  session: string;
  /** How long the player took; by default the caller's own measurement. */
  seconds?: number;
}

export interface ScoredRollout extends PlayedEpisode {
  outcome: "scored";
  /** The limit that ended it, if one did. */
  stopped?: string;
}

export interface FailedRollout extends PlayedEpisode {
  outcome: "failed";
  failure: RolloutFailure;
}

/** An episode that reached the step of its fork. Its continuations are scored. */
export interface ForkedRollout extends PlayedEpisode {
  outcome: "forked";
  /** The version of the environment's session at the fork. */
  version: number;
}

/** The result of playing an episode. */
export type Played = ScoredRollout | FailedRollout | ForkedRollout;

/**
 * Plays an episode to its end, or goes on with one that was cut short. Never rejects. A failure of one that was cancelled
 * is no outcome: it is played on later.
 */
export type Play = (rollout: Rollout, signal: AbortSignal) => Promise<Played>;

/** What a row is to an environment: not what it is to the agent and to the collection. */
export function taskOf(row: TaskRow): TaskRow {
  const fields = Object.entries(row).filter(([name]) => !forOthers.has(name) && !name.startsWith("_ng_"));
  return Object.fromEntries(fields);
}

const forOthers = new Set(["responses_create_params", "agent_ref"]);

/** What the user says in a row: its input as items. Gives what is wrong with it in words. */
export function inputItems(row: TaskRow): Item[] | string {
  const { input } = Object(row["responses_create_params"]) as { input?: Json };
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (!Array.isArray(input) || input.length === 0) return "it has no `responses_create_params.input` to start with";
  // The type may be left out of messages.
  const items = input.map((item) => (typeof item === "object" && item !== null ? { type: "message", ...item } : item));
  const fault = faultInItems(items);
  return fault === undefined ? (items as Item[]) : `of \`responses_create_params.input\`, ${fault}`;
}

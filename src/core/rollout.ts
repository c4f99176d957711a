// Types for rollouts: a task to run, and its outcome.
import { showJson } from "./ellipsis.ts";
import { HoldfastError } from "./errors.ts";
import type { Thrown } from "./event.ts";
import type { Json } from "./json.ts";
import { faultInItems, type Item } from "./model.ts";

/** One row in a data set. */
export type TaskRow = { [field: string]: Json };

/** One episode to run. */
export interface Rollout {
  task: number;
  /** The rollout's number within its task. With forks, each continuation has a number, and this is the lowest one. */
  repeat: number;
  /** 0 at first. A failed rollout is run again in another session, with the next number. */
  attempt: number;
  row: TaskRow;
  /** The id of the rollout's conversation. The id stays the same each time the collection is resumed. */
  session: string;
  /**
   * Random seed of the environment: equal in all collections with the same seed, in all attempts and, by default, in
   * all repeats of the task.
   */
  random: number;
  /** Fork after this tool step. The continuations are scored; the episode itself is not. */
  forkAfter?: number;
  /** For a continuation: the fork where it starts. */
  origin?: Origin;
}

/** Where an episode was forked. */
export interface Origin {
  /** Path to the continuation: "0.2" is the third continuation of the first continuation. */
  branch: string;
  /** The parent's conversation, and the tool step after which it was forked. */
  conversation: string;
  step: number;
  /** The parent's environment session, and the version at the fork. */
  session: string;
  version: number;
}

/**
 * Why a rollout has no reward. The model's mistakes are not failures: they are scored. A tool that throws is not a
 * failure either: the model reads the error and continues. If a tool's answer is lost, that is a failure.
 */
export type FailureKind = (typeof failureKinds)[number];

export const failureKinds = [
  "task",
  "seed",
  "model",
  "agent",
  "tool",
  "store",
  "verify",
  "timeout",
  // The rollout crashed or blocked its worker process several times.
  "worker",
  "internal",
] as const;

export interface RolloutFailure {
  kind: FailureKind;
  reason: string;
  /** The error code of the cause, if it has one. */
  code?: string;
  /** The error in the author's code that caused the failure. */
  thrown?: Thrown;
  /** The episode was played to its end and recorded. Playing the same rollout again only verifies it again. */
  isPlayed?: boolean;
}

interface PlayedEpisode {
  /** Fields to add to the row: the response, and the verdict if it was scored. */
  fields: TaskRow;
  /** The environment session. */
  session: string;
  /** Seconds that the player took. Default: the caller's own measurement. */
  seconds?: number;
  /** Errors in the author's tools that the model read, as in "TypeError: x in roll (environment.ts:12)". */
  errors?: string[];
}

export interface ScoredRollout extends PlayedEpisode {
  outcome: "scored";
  /** The limit that ended the episode, if any. */
  stopped?: string;
}

export interface FailedRollout extends PlayedEpisode {
  outcome: "failed";
  failure: RolloutFailure;
}

/** An episode that reached the step where it forks. Its continuations are scored. */
export interface ForkedRollout extends PlayedEpisode {
  outcome: "forked";
  /** The environment session's version at the fork. */
  version: number;
}

/** The result of running an episode. */
export type Played = ScoredRollout | FailedRollout | ForkedRollout;

/** Returns the result for an episode that failed before it had any row fields. */
export function failedRollout(session: string, kind: FailureKind, reason: string): FailedRollout {
  return { outcome: "failed", fields: {}, session, failure: { kind, reason } };
}

/**
 * Runs an episode to its end, or continues an interrupted one. Never rejects. If an episode is cancelled, its failure
 * is not an outcome: the episode continues later.
 */
export type Play = (rollout: Rollout, signal: AbortSignal) => Promise<Played>;

/** Returns a row's fields for the environment, without the fields for the agent and the collection. */
export function pickTask(row: TaskRow): TaskRow {
  const fields = Object.entries(row).filter(([name]) => !forOthers.has(name) && !name.startsWith("_ng_"));
  return Object.fromEntries(fields);
}

/**
 * The row field that holds the random seed for its episodes. NeMo Gym's collectors send rows unchanged, so a data set
 * can have this field too. It is not part of the task.
 */
export const randomSeedField = "_holdfast_random_seed";

/** Returns a row's random seed, if it has one. Throws `invalid_task` if it is not a number. */
export function readRandomSeed({ [randomSeedField]: seed }: TaskRow): number | undefined {
  if (seed === undefined || seed === null) return undefined;
  if (typeof seed === "number") return seed;
  throw new HoldfastError("invalid_task", `\`${randomSeedField}\` must be a number, not ${showJson(seed, 60)}`);
}

/**
 * The row field that holds its labels, such as the version of the policy that produced it. It is not part of the task.
 */
export const labelsField = "_holdfast_labels";

const forOthers = new Set(["responses_create_params", "agent_ref", randomSeedField, labelsField]);

/** Returns a row's input as items, or a string that describes why the input is invalid. */
export function inputItems(row: TaskRow): Item[] | string {
  const { input } = Object(row["responses_create_params"]) as { input?: Json };
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (!Array.isArray(input) || input.length === 0) return "it has no `responses_create_params.input`";
  // Messages may omit their type.
  const items = input.map((item) => (typeof item === "object" && item !== null ? { type: "message", ...item } : item));
  const fault = faultInItems(items);
  return fault === undefined ? (items as Item[]) : `in \`responses_create_params.input\`, ${fault}`;
}

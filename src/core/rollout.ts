// Rollouts: the playing of a task, and its outcome.
import { showJson } from "./ellipsis.ts";
import { HoldfastError } from "./errors.ts";
import type { Thrown } from "./event.ts";
import type { Json } from "./json.ts";
import { faultInItems, type Item } from "./model.ts";

/** One row of a data set. */
export type TaskRow = { [field: string]: Json };

/** One episode to play. */
export interface Rollout {
  task: number;
  /**
   * Number among the task's rollouts. With forks, all continuations are counted, and this is the number of the first.
   */
  repeat: number;
  /** 0 at first. A failed rollout is played again in another session, with the next number. */
  attempt: number;
  row: TaskRow;
  /** Id of its conversation; the same each time the collection is resumed. */
  session: string;
  /**
   * Random seed of the environment: equal in all collections with the same seed, in all attempts and, by default, in all
   * repeats of the task.
   */
  random: number;
  /** Fork after this tool step. Its continuations are scored, not the episode itself. */
  forkAfter?: number;
  /** For a continuation: where it starts. */
  origin?: Origin;
}

/** Where an episode was forked. */
export interface Origin {
  /** Path to the continuation: "0.2" is the third continuation of the first one. */
  branch: string;
  /** The parent's conversation, and the tool step after which it was forked. */
  conversation: string;
  step: number;
  /** The parent's environment session, and the version at the fork. */
  session: string;
  version: number;
}

/**
 * Why a rollout has no reward. Mistakes of the model are not failures: they are scored. A tool that throws is not one
 * either: the model reads the error and continues. A lost answer of a tool is a failure.
 */
export type FailureKind =
  | "task"
  | "seed"
  | "model"
  | "agent"
  | "tool"
  | "store"
  | "verify"
  | "timeout"
  /** It ended or blocked the process of its worker several times. */
  | "worker"
  | "internal";

export interface RolloutFailure {
  kind: FailureKind;
  reason: string;
  /** The code of the error behind it, if it had one. */
  code?: string;
  /** The error of the author's code behind it. */
  thrown?: Thrown;
}

interface PlayedEpisode {
  /** Fields to add to the row: the response, and the verdict if it was scored. */
  fields: TaskRow;
  /** The session of the environment. */
  session: string;
  /** Seconds the player took. Default: the caller's own measurement. */
  seconds?: number;
  /** Errors of the author's tools that the model read, as in "TypeError: x in roll (environment.ts:12)". */
  errors?: string[];
}

export interface ScoredRollout extends PlayedEpisode {
  outcome: "scored";
  /** The limit that ended it, if any. */
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

/** Returns the result of an episode that failed before it had fields. */
export function failedRollout(session: string, kind: FailureKind, reason: string): FailedRollout {
  return { outcome: "failed", fields: {}, session, failure: { kind, reason } };
}

/**
 * Plays an episode to its end, or continues an interrupted one. Never rejects. The failure of a cancelled episode is
 * not an outcome: it continues later.
 */
export type Play = (rollout: Rollout, signal: AbortSignal) => Promise<Played>;

/** Returns the fields of a row for the environment, without those for the agent and the collection. */
export function pickTask(row: TaskRow): TaskRow {
  const fields = Object.entries(row).filter(([name]) => !forOthers.has(name) && !name.startsWith("_ng_"));
  return Object.fromEntries(fields);
}

/**
 * The field of a row with the random seed of its episodes. Collectors of NeMo Gym send rows as they are, so a data set can
 * have it too. It is not part of the task.
 */
export const randomSeedField = "_holdfast_random_seed";

/** Returns the random seed in a row, if it has one. Throws `invalid_task` if it is not a number. */
export function readRandomSeed({ [randomSeedField]: seed }: TaskRow): number | undefined {
  if (seed === undefined || seed === null) return undefined;
  if (typeof seed === "number") return seed;
  throw new HoldfastError("invalid_task", `\`${randomSeedField}\` must be a number, not ${showJson(seed, 60)}`);
}

/** The field of a row with its labels, such as the version of the policy that played it. It is not part of the task. */
export const labelsField = "_holdfast_labels";

const forOthers = new Set(["responses_create_params", "agent_ref", randomSeedField, labelsField]);

/** Returns the input of a row as items, or a text that describes its problem. */
export function inputItems(row: TaskRow): Item[] | string {
  const { input } = Object(row["responses_create_params"]) as { input?: Json };
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  if (!Array.isArray(input) || input.length === 0) return "it has no `responses_create_params.input` to start with";
  // Messages may omit their type.
  const items = input.map((item) => (typeof item === "object" && item !== null ? { type: "message", ...item } : item));
  const fault = faultInItems(items);
  return fault === undefined ? (items as Item[]) : `of \`responses_create_params.input\`, ${fault}`;
}

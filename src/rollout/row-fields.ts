// The row fields that are not part of the task: the outcome, the metrics that verify returned, and the tokens of items.
import { equalJson, isObject, setOwn, type Json } from "../core/json.ts";
import type { FailureKind, TaskRow } from "../core/rollout.ts";
import { withoutLineage } from "./tree.ts";

/** Fields from earlier outcomes. A row with them is a valid task, because it may come from another collection. */
const outcome = ["response", "session_id", "seconds", "stopped", "token_chain", "token_chain_answer", "harness"];
const failure = ["failure_kind", "failure_reason", "failure_stack", "mask_sample", "retried"];
const verdict = ["reward", "metrics", "step_rewards"];
/** Fields that a Holdfast server adds to a verdict, and fields for forked episodes. */
const session = ["holdfast", "episode", "reseeds", "verdicts", "parent", "forked_at", "branch"];

const outcomeFields = new Set([...outcome, ...failure, ...verdict, ...session]);
const played = new Set([...outcome, ...failure]);
const marks = new Set([
  "_ng_attempt_index",
  "_ng_failure_class",
  "_ng_failure_reason",
  "_ng_failure_terminal",
  "_ng_no_persist",
]);

/** Item fields used in training, with the names that NeMo Gym and chat API servers use. */
export const tokenFields: readonly string[] = [
  "prompt_token_ids",
  "generation_token_ids",
  "generation_log_probs",
  "routed_experts",
  "token_ids",
  "logprobs",
];

export const isOutcomeField = (name: string): boolean => outcomeFields.has(name);

/** Returns whether a row has an outcome. A row of a tasks file has none. */
export const isRollout = (row: TaskRow): boolean =>
  ["reward", "response", "failure_kind"].some((field) => field in row);

/** Removes the outcome of an earlier collection. In a row without a response, `metrics` is a field of the task. */
export function withoutOutcome(row: TaskRow): TaskRow {
  const isOld = (name: string): boolean =>
    played.has(name) || marks.has(name) || (name === "metrics" && !hasOwnMetrics(row));
  return Object.fromEntries(Object.entries(withoutLineage(row)).filter(([name]) => !isOld(name)));
}

/** Returns whether `metrics` is a field of the task. */
export const hasOwnMetrics = ({ metrics, response }: TaskRow): boolean =>
  metrics !== undefined && response === undefined;

/** Fields of `responses_create_params` that the player sets itself. */
export const playerFields = new Set(["input", "tools", "instructions", "model", "stream", "store"]);

/** Fields of a verdict that are kept next to the reward, for trainers and collectors. */
const besideReward = new Set(["reward", "response", "mask_sample", "failure_kind", "failure_reason", "agent_ref"]);
/** Fields that a server adds about the episode. */
const aboutEpisode = new Set(["responses_create_params", "stopped", "holdfast", "episode", "reseeds", "verdicts"]);

/**
 * Puts the other fields that verify returned under `metrics`, so that they cannot overwrite a field of the task. A
 * server also returns the task's fields. With `echoed`, fields with the same value in `echoed` are dropped.
 */
export function toVerdictFields(given: TaskRow, echoed?: TaskRow): TaskRow {
  const [fields, metrics]: [TaskRow, TaskRow] = [{}, {}];
  for (const [name, value] of Object.entries(given)) {
    const isField = besideReward.has(name) || name.startsWith("_ng_") || (echoed && aboutEpisode.has(name));
    // A judge may call its own answer `response`. It must not replace the transcript.
    const isOther = name === "response" && !(isObject(value) && Array.isArray(value["output"]));
    if (isField && !isOther) setOwn(fields, name, value);
    else if (name === "metrics" && isObject(value)) Object.assign(metrics, value);
    else if (!echoed || !Object.hasOwn(echoed, name) || !equalJson(echoed[name], value)) setOwn(metrics, name, value);
  }
  return Object.keys(metrics).length === 0 ? fields : { ...fields, metrics };
}

/** Returns fields with their metrics at the top level, where NeMo Gym's verifiers and reward profile expect them. */
export function withFlatMetrics({ metrics, ...fields }: TaskRow): TaskRow {
  return { ...fields, ...readMetrics({ metrics: metrics as Json }) };
}

/**
 * Returns the fields that verify returned in addition to the reward. Returns {} for rows of other collectors, which mix
 * these fields with the rest.
 */
export function readMetrics({ metrics }: TaskRow): TaskRow {
  return isObject(metrics) ? (metrics as TaskRow) : {};
}

export function isFailed({ failure_kind: kind }: TaskRow): boolean {
  return typeof kind === "string" && kind !== "";
}

/** Returns whether a row did not fail but is marked so that its reward must not be used. */
export const isMasked = (row: TaskRow): boolean => row["mask_sample"] === true && !isFailed(row);

/** Returns the reward; undefined for a failed or masked row, even if the row has a reward. */
export function readReward(row: TaskRow): number | undefined {
  const { reward } = row;
  return typeof reward === "number" && !isFailed(row) && !isMasked(row) ? reward : undefined;
}

/** Models that run in this process. They count one token for every four characters. */
const estimatingModels = new Set<unknown>(["scripted", "random"]);

export function hasEstimatedTokens({ response }: TaskRow): boolean {
  return isObject(response) && estimatingModels.has(response["model"]);
}

/**
 * Returns the fields for a failed row. NeMo Gym's collectors recognise it by `_ng_failure_class`. The reward is 0 only
 * because they require a number.
 */
export const failureFields = ({ kind, reason }: { kind: FailureKind; reason: string }): TaskRow => ({
  reward: 0,
  mask_sample: true,
  failure_kind: kind,
  failure_reason: reason,
  _ng_failure_class: kind,
  _ng_failure_reason: reason,
  // An invalid row stays invalid, so collectors do not need to retry it.
  ...(kind === "task" && { _ng_failure_terminal: true }),
});

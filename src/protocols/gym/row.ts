// Rows in the gym protocol: how they are read, and how a failed row is reported.
import { HoldfastError, messageOf } from "../../core/errors.ts";
import type { Labels } from "../../core/event.ts";
import { copyJson, isObject, type Json } from "../../core/json.ts";
import type { Reply } from "../../core/protocol.ts";
import type { FailureKind } from "../../core/rollout.ts";
import { classifyError } from "../../rollout/play/failure.ts";
import { failureFields } from "../../rollout/row-fields.ts";

export type Row = { [field: string]: Json };

/** Copies a body's fields. Replies repeat them, so they must be serializable JSON. */
export function parseRow(body: unknown): Row {
  const row = copyJson(body ?? {}, "body", "drop");
  if (isObject(row)) return row as Row;
  const what = Array.isArray(row) ? "list" : typeof row;
  throw new HoldfastError("invalid_task", `the body must be a JSON object with the fields of the task, not a ${what}`);
}

/** Returns whether a body is a whole data set row, as NeMo Gym's agents and collectors send it. */
export const isWhole = (row: Row): boolean => isObject(row["responses_create_params"]);

/** Fields in a seed's body that become the episode's labels. */
const labelNames = [
  "_ng_session_id",
  "_ng_rollout_id",
  "_ng_attempt_index",
  "_ng_task_index",
  "_ng_rollout_index",
  "_ng_session_close_token",
];

export function buildLabels(row: Row, rollout: string | undefined): Labels {
  const labels: Labels = rollout === undefined ? {} : { _ng_rollout_id: rollout };
  for (const name of labelNames) {
    const value = row[name];
    if (value !== undefined && value !== null) labels[name] = value;
  }
  return labels;
}

export interface RowFailure {
  kind: FailureKind;
  reason: string;
  thrown: unknown;
}

/** Describes an error that ended a request for a row. */
export const toFailure = (thrown: HoldfastError): RowFailure => ({
  kind: classifyError(thrown),
  reason: messageOf(thrown),
  thrown,
});

/**
 * Answers a failed row as `/run` does, with 200. For any other status, NeMo Gym's agents and collectors end the whole
 * collection.
 */
export function failedReply(row: Row, failure: RowFailure): Reply {
  return { status: 200, body: { ...row, ...failureFields(failure) }, thrown: failure.thrown };
}

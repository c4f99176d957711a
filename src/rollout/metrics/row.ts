// readRow(): reads the numbers of a row. Other fields and invalid values are ignored.
import { hash } from "node:crypto";
import { isObject } from "../../core/json.ts";
import type { TaskRow } from "../../core/rollout.ts";
import { hasEstimatedTokens, isFailed, isMasked, readMetrics } from "../row-fields.ts";

export interface CountedRow {
  task: number;
  /** The rollout's number within its task, if present. */
  index: number | undefined;
  /** Every number and boolean of the row, of its metrics and of its usage, in order. */
  columns: Map<string, number>;
  /** The columns that come from the row's metrics. */
  metrics: string[];
  /** True if the tokens of the row were estimated. */
  isEstimate: boolean;
  failure: string | undefined;
  /** True if the row did not fail and says that its reward must not be used. */
  isMasked: boolean;
  answer: number | undefined;
}

export const taskIndex = "_ng_task_index";
export const rolloutIndex = "_ng_rollout_index";
/** Numbers that a collection adds to a row, and that are not measurements. */
const stamps = [taskIndex, rolloutIndex, "_ng_attempt_index", "mask_sample", "forked_at", "token_chain_answer"];

export function readRow(row: Record<string, unknown>, answerKey?: string): CountedRow {
  const { columns, metrics, isEstimate } = readNumbers(row);
  const [task = 0, index] = [columns.get(taskIndex), columns.get(rolloutIndex)];
  for (const stamp of stamps) columns.delete(stamp);
  return {
    task,
    index,
    columns,
    metrics,
    isEstimate,
    failure: isFailed(row as TaskRow) ? String(row["failure_kind"]) : undefined,
    isMasked: isMasked(row as TaskRow),
    answer: answerKey !== undefined && Object.hasOwn(row, answerKey) ? answerNumber(row[answerKey]) : undefined,
  };
}

function readNumbers(row: Record<string, unknown>): Pick<CountedRow, "columns" | "metrics" | "isEstimate"> {
  const columns = new Map<string, number>();
  const add = (name: string, value: unknown): boolean => {
    const number = typeof value === "boolean" ? Number(value) : value;
    if (typeof number !== "number" || !Number.isFinite(number)) return false;
    // JSON has no -0.
    columns.set(name, number || 0);
    return true;
  };
  for (const [name, value] of Object.entries(row)) add(name, value);
  const metrics = Object.entries(readMetrics(row as TaskRow)).flatMap(([name, value]) => {
    // Metrics have a prefix, because a task may have a field with the same name.
    const column = `metrics.${name}`;
    return add(column, value) ? [column] : [];
  });
  const { response, harness } = row;
  // Numbers about how a harness used its model.
  if (isObject(harness)) for (const [name, value] of Object.entries(harness)) add(`harness.${name}`, value);
  const usage = isObject(response) && isObject(response["usage"]) ? response["usage"] : {};
  for (const [name, value] of Object.entries(usage)) add(name, value);
  return { columns, metrics, isEstimate: hasEstimatedTokens(row as TaskRow) };
}

/** Returns a number that identifies the answer, because only numbers are kept. `true` equals 1, and "1" does not. */
function answerNumber(answer: unknown): number | undefined {
  if (answer === undefined || answer === null) return undefined;
  const text = jsonText(typeof answer === "boolean" ? Number(answer) : answer);
  return text === undefined ? undefined : fingerprint(text);
}

function jsonText(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // The answer is nested too deeply to serialize, so it counts as missing.
    return undefined;
  }
}

/** Returns a hash of 52 bits: among a million different strings, the chance of a collision is about 1 in 9,000. */
const fingerprint = (text: string): number => Number.parseInt(hash("sha256", text).slice(0, 13), 16);

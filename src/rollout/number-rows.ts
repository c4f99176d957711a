// createRowNumbering(): numbers rollouts that have no task number, by the content of their task.
import { createHash } from "node:crypto";
import { canonicalText } from "../core/digest.ts";
import { isObject, type Json } from "../core/json.ts";
import { pickTask, type TaskRow } from "../core/rollout.ts";
import { isOutcomeField } from "./row-fields.ts";
import { readRows } from "./tasks.ts";

/**
 * Returns a function that adds missing numbers to rows. A row without `_ng_task_index` gets its task's number, and its
 * own number among that task's rollouts. Numbered rows are returned unchanged. New task numbers never collide with
 * numbers in the files: the first row without a number makes the function read the files once.
 */
export function createRowNumbering(files: string[]): (row: TaskRow) => Promise<TaskRow> {
  const tasks = new Map<string, { task: number; rollouts: number }>();
  let next: number | undefined;
  return async (row) => {
    if (typeof row["_ng_task_index"] === "number") return row;
    next ??= await firstFree(files);
    const digest = digestTask(row);
    const found = tasks.get(digest) ?? { task: next++, rollouts: 0 };
    tasks.set(digest, found);
    return { ...row, _ng_task_index: found.task, _ng_rollout_index: found.rollouts++ };
  };
}

async function firstFree(files: string[]): Promise<number> {
  let free = 0;
  for (const file of files) {
    for await (const read of readRows(file)) {
      const given = "row" in read ? read.row["_ng_task_index"] : undefined;
      if (typeof given === "number") free = Math.max(free, Math.floor(given) + 1);
    }
  }
  return free;
}

/** Names of fields that are part of the task in common data sets, although result fields may be next to them. */
const taskFields = [
  "id",
  "uuid",
  "task_id",
  "task_idx",
  "source_id",
  "seed",
  "expected_answer",
  "ground_truth",
  "verifier_metadata",
];

/**
 * Digests the task of a finished rollout: its prompt and its task fields. Rows of other collectors mix results with
 * task fields, so only fields with the usual names count in them. Without a prompt, all fields count, because two tasks
 * in one group would be worse than one task in two groups.
 */
function digestTask(row: TaskRow): string {
  const { input = null, instructions = null } = Object(row["responses_create_params"]) as TaskRow;
  const hasPrompt = typeof input === "string" ? input !== "" : Array.isArray(input) && input.length > 0;
  const fields: [string, Json][] =
    hasPrompt && !isObject(row["metrics"])
      ? taskFields.flatMap((name) => (row[name] === undefined ? [] : [[name, row[name]]]))
      : Object.entries(pickTask(row)).filter(([name]) => !isOutcomeField(name));
  const text = canonicalText([input, instructions, Object.fromEntries(fields)]);
  return createHash("sha256").update(text).digest("base64url");
}

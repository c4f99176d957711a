// createRowNumbering(): numbers rollouts that do not say which task they belong to, by the content of their task.
import { createHash } from "node:crypto";
import { canonicalText } from "../core/digest.ts";
import { HoldfastError } from "../core/errors.ts";
import { isObject, type Json } from "../core/json.ts";
import { pickTask, type TaskRow } from "../core/rollout.ts";
import { isOutcomeField } from "./row-fields.ts";

/**
 * Returns a function that gives each row without `_ng_task_index` the number of its task, and its number among the
 * rollouts of that task. Rows with a number are returned unchanged.
 *
 * @example
 * const number = createRowNumbering();
 * rows.map(number).map((row) => row["_ng_task_index"]); // [0, 1, 0] for the prompts "a", "b", "a"
 */
export function createRowNumbering(): (row: TaskRow) => TaskRow {
  const tasks = new Map<string, { task: number; rollouts: number }>();
  const added = new Set<number>();
  let next = 0;
  return (row) => {
    const given = row["_ng_task_index"];
    if (typeof given === "number") {
      // Two tasks would share a number, and their rewards would be compared.
      if (added.has(given)) throw mixed(given);
      next = Math.max(next, Math.floor(given) + 1);
      return row;
    }
    const digest = digestTask(row);
    const found = tasks.get(digest) ?? { task: next++, rollouts: 0 };
    tasks.set(digest, found);
    added.add(found.task);
    return { ...row, _ng_task_index: found.task, _ng_rollout_index: found.rollouts++ };
  };
}

const mixed = (task: number): HoldfastError =>
  new HoldfastError(
    "invalid_input",
    `some rows have a \`_ng_task_index\`, such as ${task}, and rows before them have none; add it to all rows, or to none`,
  );

/** Names of fields that are part of the task in common data sets, although results may stand beside them. */
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
 * Digests the task of a finished rollout: its prompt, and its task fields. Rows of other collectors mix results into the
 * task fields, so only fields with the usual names count there. Without a prompt all fields count: two tasks in one
 * group would be worse than one task in two.
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

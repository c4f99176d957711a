// changedTask(): checks whether the tasks of a collection changed since it started.
import type { Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";
import { createNumbering, taskDigest, type BadRow, type ReadRow } from "./tasks.ts";

export interface ChangedTaskOptions {
  limit?: number | undefined;
  /** System prompts by setting, now and before: they replace the instructions of tasks. */
  systems?: (Json | undefined)[];
}

type Rows = AsyncIterable<ReadRow | BadRow>;

/**
 * Returns the first task that differs from the stored input with its number. Tasks present in only one file are
 * ignored.
 */
export async function changedTask(
  inputs: Rows,
  tasks: Rows,
  { limit = Infinity, systems = [] }: ChangedTaskOptions = {},
): Promise<{ task: number; line: number } | undefined> {
  const before = new Map<number, string>();
  /** Tasks whose instructions come from a setting. */
  const told = new Set<number>();
  for await (const read of inputs) {
    if (!("row" in read)) continue;
    const task = Number(read.row["_ng_task_index"]);
    const isTold = systems.includes((Object(read.row["responses_create_params"]) as TaskRow)["instructions"]);
    if (isTold) told.add(task);
    before.set(task, taskDigest(isTold ? withoutInstructions(read.row) : read.row));
  }
  const numberTask = createNumbering();
  let count = 0;
  for await (const read of tasks) {
    if (++count > limit) break;
    const numbered = numberTask(read);
    const was = before.get(numbered.task);
    // A row with the number of another task is refused elsewhere.
    if (was === undefined || ("row" in read && "problem" in numbered)) continue;
    if (!("row" in read)) return { task: numbered.task, line: read.line };
    const row = told.has(numbered.task) ? withoutInstructions(read.row) : read.row;
    if (taskDigest(row) !== was) return { task: numbered.task, line: read.line };
  }
  return undefined;
}

function withoutInstructions(row: TaskRow): TaskRow {
  const { instructions: _, ...params } = Object(row["responses_create_params"]) as TaskRow;
  return { ...row, responses_create_params: params };
}

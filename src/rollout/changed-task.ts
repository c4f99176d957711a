// changedTask(): checks whether the tasks of a collection changed since it started.
import { createNumbering, taskDigest, type BadRow, type ReadRow } from "./tasks.ts";

type Rows = AsyncIterable<ReadRow | BadRow>;

/**
 * Returns the first task that differs from the stored input with its number. Tasks present in only one file are
 * ignored.
 */
export async function changedTask(
  inputs: Rows,
  tasks: Rows,
  limit = Infinity,
): Promise<{ task: number; line: number } | undefined> {
  const before = new Map<number, string>();
  for await (const read of inputs)
    if ("row" in read) before.set(Number(read.row["_ng_task_index"]), taskDigest(read.row));
  const numberTask = createNumbering();
  let count = 0;
  for await (const read of tasks) {
    if (++count > limit) break;
    const numbered = numberTask(read);
    const was = before.get(numbered.task);
    // A row with the number of another task is refused elsewhere.
    if (was === undefined || ("row" in read && "problem" in numbered)) continue;
    if (!("row" in read) || taskDigest(read.row) !== was) return { task: numbered.task, line: read.line };
  }
  return undefined;
}

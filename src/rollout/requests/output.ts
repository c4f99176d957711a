// requestOutput(): stores a request's rows in its log. Rows of a group wait in the log until the group is complete.
import type { TaskRow } from "../../core/rollout.ts";
import type { CollectionOutput } from "../output.ts";
import { createTree, rowNodeKey, type Branching } from "../tree.ts";
import type { KeptRow, RequestLog, RequestState, Written } from "./log.ts";

/** Stores rows in a log. A failed row is final, because the client has already received it. */
export function requestOutput(log: RequestLog, groups: boolean): CollectionOutput {
  const keep = (row: TaskRow): Promise<void> => log.write({ type: groups ? "kept" : "row", row });
  return {
    // Copies, because the log's state grows with every row.
    existing: () => {
      const { done, tries, scored } = log.state;
      return Promise.resolve({ done: new Set(done), known: new Set(), tries: new Map(tries), scored });
    },
    input: () => undefined,
    scored: keep,
    failed: (row) => (row["retried"] === true ? log.write({ type: "retried", node: rowNodeKey(row) }) : keep(row)),
    close: () => undefined,
  };
}

/**
 * Returns a function that writes a group after its last row. `rollouts`: the number of rollouts for a task if every
 * episode is forked. An episode that ends before a fork counts for all its continuations.
 */
export function createGrouping(
  branches: readonly Branching[],
  rollouts: (task: number) => number,
): (state: RequestState, written: Written) => Written[] {
  const tree = createTree(branches);
  const depth = ({ branch }: KeptRow): number => (branch === "" ? 0 : branch.split(".").length);
  return ({ kept }, written) => {
    if (written.type !== "kept") return [];
    const task = Number(written.row["_ng_task_index"]);
    const rows = kept.get(task) ?? [];
    const ended = rows.reduce((sum, row) => sum + tree.leaves(depth(row)), 0);
    return ended < rollouts(task) ? [] : [toGroup(task, rows)];
  };
}

/** Returns the groups that will never be complete, because a store lost a forked episode or the request ended early. */
export const remainingGroups = ({ kept }: RequestState): Written[] =>
  [...kept].map(([task, rows]) => toGroup(task, rows));

function toGroup(task: number, rows: readonly KeptRow[]): Written {
  const sorted = rows.toSorted((a, b) => a.index - b.index);
  return { type: "group", task, versions: sorted.map(({ version }) => version) };
}

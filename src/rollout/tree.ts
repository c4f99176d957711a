// Trees of forked episodes: their shape, and the place of a row in its tree.
import type { Origin, Rollout, TaskRow } from "../core/rollout.ts";

/** Forks every episode that reaches the step into this many continuations. */
export interface Branching {
  ways: number;
  /** Number of the tool step, from 1. */
  step: number;
}

/** A place in a tree: an episode to fork, or a continuation. */
export interface Node {
  task: number;
  /** Number of the first rollout below this node, among all rollouts of the task. So each rollout has one number. */
  index: number;
  /** "" for the original episode. */
  branch: string;
  /** Number of forks above this node. */
  depth: number;
}

export function createTree(given: readonly Branching[]) {
  const branchings = [...given].sort((a, b) => a.step - b.step);
  /** Number of rollouts below a node of that depth, if every episode is forked. */
  const leaves = (depth: number): number => branchings.slice(depth).reduce((count, { ways }) => count * ways, 1);
  return {
    leaves,
    /** Returns the tool step after which a node is forked. */
    forkStep: ({ depth }: Node): number | undefined => branchings[depth]?.step,
    children({ task, index, branch, depth }: Node): Node[] {
      const below = leaves(depth + 1);
      return Array.from({ length: branchings[depth]?.ways ?? 0 }, (_, way) => ({
        task,
        index: index + way * below,
        depth: depth + 1,
        branch: branch === "" ? String(way) : `${branch}.${way}`,
      }));
    },
  };
}

export const nodeKey = ({ task, index, branch }: Omit<Node, "depth">): string => `${task} ${index} ${branch}`;

export function rowNodeKey(row: TaskRow): string {
  const { _ng_task_index: task, _ng_rollout_index: index } = row;
  return nodeKey({ task: Number(task), index: Number(index), branch: readBranch(row) });
}

/** Returns a row's place in its tree; "" if it was not forked. Without `forked_at`, `branch` is a field of the task. */
export function readBranch({ branch, forked_at: version }: TaskRow): string {
  return typeof version === "number" && typeof branch === "string" && /^\d+(\.\d+)*$/.test(branch) ? branch : "";
}

/** Returns the fields of a row about its fork. */
export function toLineage({ origin }: Rollout): TaskRow {
  return origin ? { parent: origin.session, forked_at: origin.version, branch: origin.branch } : {};
}

export function withoutLineage(row: TaskRow): TaskRow {
  if (readBranch(row) === "") return row;
  const { parent: _, forked_at: __, branch: ___, ...rest } = row;
  return rest;
}

/** Describes where a continuation starts. */
export function toOrigin(parent: Rollout, session: string, version: number, { branch }: Node): Origin {
  return { branch, conversation: parent.session, step: parent.forkAfter ?? 0, session, version };
}

// Episodes that are forked: the shape of their trees, and what a row says of its place in one.
import type { Origin, Rollout, TaskRow } from "../core/rollout.ts";

/** Every episode that comes to the step is forked after it, into so many continuations. */
export interface Branching {
  ways: number;
  /** Of the tool steps, from 1. */
  step: number;
}

/** A place in a tree: the episode that is forked, or a continuation of one. */
export interface Node {
  task: number;
  /** That of the first rollout below it, among all of the task: so rollouts have a number each, however deep they are. */
  index: number;
  /** "" for the episode itself. */
  branch: string;
  /** How often it was forked on the way. */
  depth: number;
}

export interface Tree {
  /** How many rollouts there are below a node of that depth, if all of them are forked. */
  leaves(depth: number): number;
  /** The tool step after which a node is forked. */
  stepOf(node: Node): number | undefined;
  children(node: Node): Node[];
}

export function treeOf(given: readonly Branching[]): Tree {
  const branchings = [...given].sort((a, b) => a.step - b.step);
  const leaves = (depth: number): number => branchings.slice(depth).reduce((count, { ways }) => count * ways, 1);
  return {
    leaves,
    stepOf: ({ depth }) => branchings[depth]?.step,
    children({ task, index, branch, depth }) {
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

/** Names a node. */
export const nodeKey = ({ task, index, branch }: Omit<Node, "depth">): string => `${task} ${index} ${branch}`;

/** Names the node of a row. */
export function nodeKeyOf(row: TaskRow): string {
  const { _ng_task_index: task, _ng_rollout_index: index } = row;
  return nodeKey({ task: Number(task), index: Number(index), branch: branchOf(row) });
}

/** Where in its tree a row is; "" if it is in none. A task may have a field of that name. */
export function branchOf({ branch, forked_at: version }: TaskRow): string {
  return typeof version === "number" && typeof branch === "string" && /^\d+(\.\d+)*$/.test(branch) ? branch : "";
}

/** What a row says of where it was forked. */
export function lineageOf({ origin }: Rollout): TaskRow {
  return origin ? { parent: origin.session, forked_at: origin.version, branch: origin.branch } : {};
}

export function withoutLineage(row: TaskRow): TaskRow {
  if (branchOf(row) === "") return row;
  const { parent: _, forked_at: __, branch: ___, ...rest } = row;
  return rest;
}

/** What a continuation goes on with. */
export function originOf(parent: Rollout, session: string, version: number, { branch }: Node): Origin {
  return { branch, conversation: parent.session, step: parent.forkAfter ?? 0, session, version };
}

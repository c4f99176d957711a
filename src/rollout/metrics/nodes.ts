// The mean reward for every node in the trees of forks, over all rollouts below it.
import type { TaskRow } from "../../core/rollout.ts";
import { readReward } from "../row-fields.ts";
import { readBranch } from "../tree.ts";

export interface NodeMetrics {
  /** The node's path, for example "0.2"; "" is the episode before the fork. */
  node: string;
  rollouts: number;
  scored: number;
  mean: number | null;
}

export function createNodes() {
  const nodes = new Map<string, { rollouts: number; scored: number; sum: number }>();
  return {
    add(row: TaskRow): void {
      const reward = readReward(row);
      for (const node of toPath(readBranch(row))) {
        const { rollouts = 0, scored = 0, sum = 0 } = nodes.get(node) ?? {};
        nodes.set(node, {
          rollouts: rollouts + 1,
          scored: scored + (reward === undefined ? 0 : 1),
          sum: sum + (reward ?? 0),
        });
      }
    },
    /** Returns the nodes, with parents before their children. */
    result: (): NodeMetrics[] =>
      Array.from(nodes, ([node, { rollouts, scored, sum }]) => ({
        node,
        rollouts,
        scored,
        mean: scored > 0 ? sum / scored : null,
      })).sort((a, b) => compare(a.node, b.node)),
  };
}

export interface TaskNodeMetrics extends NodeMetrics {
  task: number;
}

/** Computes the nodes of each task separately. Rows without a task are ignored. */
export function createTaskNodes() {
  const tasks = new Map<number, ReturnType<typeof createNodes>>();
  return {
    add(row: TaskRow): void {
      const task = row["_ng_task_index"];
      if (typeof task !== "number") return;
      const nodes = tasks.get(task) ?? createNodes();
      tasks.set(task, nodes);
      nodes.add(row);
    },
    result: (): TaskNodeMetrics[] =>
      [...tasks]
        .sort(([a], [b]) => a - b)
        .flatMap(([task, nodes]) => nodes.result().map((node) => ({ task, ...node }))),
  };
}

/** Returns a node and its ancestors. */
function toPath(branch: string): string[] {
  const ways = branch === "" ? [] : branch.split(".");
  return ["", ...ways.map((_, at) => ways.slice(0, at + 1).join("."))];
}

function compare(a: string, b: string): number {
  const [first, second] = [a, b].map((node) => (node === "" ? [] : node.split(".").map(Number)));
  for (const [at, way] of (first ?? []).entries()) {
    const other = second?.[at];
    if (other === undefined) return 1;
    if (way !== other) return way - other;
  }
  return (first?.length ?? 0) - (second?.length ?? 0);
}

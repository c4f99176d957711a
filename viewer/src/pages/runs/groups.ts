// Groups rows by task with metrics per task, and lists the lines of a table whose tasks unfold.
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { taskOf } from "./filter.ts";

export interface TaskGroup {
  task: number;
  /** Indexes of the task's rows, in the given order. */
  rows: number[];
  scored: number;
  /** The number of scored rows with a reward of 1; null if some reward is neither 0 nor 1. */
  passed: number | null;
  failures: number;
  /** The highest reward; null without a scored row. */
  best: number | null;
  /** Means; null if no row has the value. The reward is averaged over scored rows. */
  reward: number | null;
  steps: number;
  calls: number;
  tokens: number | null;
  seconds: number | null;
}

/** Returns the tasks in the order of their numbers. */
export function groupRows(rows: readonly RowSummary[], order: Iterable<number>): TaskGroup[] {
  const byTask = new Map<number, number[]>();
  for (const at of order) {
    const task = taskOf(rows[at] as RowSummary);
    const known = byTask.get(task);
    if (known) known.push(at);
    else byTask.set(task, [at]);
  }
  return [...byTask].sort(([a], [b]) => a - b).map(([task, places]) => groupOf(task, places, rows));
}

/** Makes one pass over the rows, because every filter change recomputes all tasks. */
function groupOf(task: number, places: number[], rows: readonly RowSummary[]): TaskGroup {
  let [scored, failures, earned, steps, calls] = [0, 0, 0, 0, 0];
  let [passed, best]: [number | null, number] = [0, -Infinity];
  let [tokens, counted, seconds, timed] = [0, 0, 0, 0];
  for (const at of places) {
    const row = rows[at] as RowSummary;
    steps += row.steps;
    calls += row.calls;
    if (row.outcome === "failed") failures++;
    if (row.reward !== null) {
      scored++;
      earned += row.reward;
      if (row.reward > best) best = row.reward;
      if (row.reward !== 0 && row.reward !== 1) passed = null;
      else if (passed !== null) passed += row.reward;
    }
    if (row.tokens !== null) {
      tokens += row.tokens;
      counted++;
    }
    if (row.seconds !== null) {
      seconds += row.seconds;
      timed++;
    }
  }
  return {
    task,
    rows: places,
    scored,
    passed,
    failures,
    best: scored === 0 ? null : best,
    reward: scored === 0 ? null : earned / scored,
    steps: steps / places.length,
    calls: calls / places.length,
    tokens: counted === 0 ? null : tokens / counted,
    seconds: timed === 0 ? null : seconds / timed,
  };
}

/** One line per task, followed by its rows if it is unfolded. A row is its index, a task ~index. */
export function foldedLines(groups: readonly TaskGroup[], open: ReadonlySet<number>): Int32Array {
  const length = groups.reduce((count, { task, rows }) => count + 1 + (open.has(task) ? rows.length : 0), 0);
  const lines = new Int32Array(length);
  let next = 0;
  groups.forEach(({ task, rows }, at) => {
    lines[next++] = ~at;
    if (!open.has(task)) return;
    lines.set(rows, next);
    next += rows.length;
  });
  return lines;
}

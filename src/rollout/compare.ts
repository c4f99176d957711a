// compareCollections(): compares two collections of the same tasks. Returns the difference, its confidence interval,
// and the tasks that cause it.
import { HoldfastError } from "../core/errors.ts";
import { bootstrap } from "./metrics/bootstrap.ts";
import type { TaskMetrics } from "./metrics/task-table.ts";

/** The data to compare: the mean reward for each task that has one. */
export interface ComparedCollection {
  tasks: Pick<TaskMetrics, "task" | "mean">[];
}

export interface CompareOptions {
  /** Seed for the interval. The same seed draws the same tasks. Default 0. */
  seed?: number;
}

/** `first` and `second` are mean rewards. A difference is second - first, so a positive value means an improvement. */
export interface TaskChange {
  task: number;
  first: number;
  second: number;
  difference: number;
}

export interface Comparison {
  /** Number of tasks with a reward in both collections. */
  tasks: number;
  /** The mean difference over these tasks, with its 95% interval; null on overflow. */
  difference: { value: number; low: number; high: number } | null;
  better: number;
  worse: number;
  same: number;
  /** The tasks that got better or worse, largest change first. */
  changed: TaskChange[];
  /** Tasks with a reward in only one collection. */
  only_first: number[];
  only_second: number[];
}

/**
 * Compares two collections task by task, so that easy and hard tasks do not blur the difference. Uses only tasks with a
 * reward in both, and throws if no such task exists.
 */
export function compareCollections(
  first: ComparedCollection,
  second: ComparedCollection,
  { seed = 0 }: CompareOptions = {},
): Comparison {
  const [a, b] = [meansByTask(first), meansByTask(second)];
  const changes = [...a].flatMap(([task, mean]) => {
    const other = b.get(task);
    return other === undefined ? [] : [toChange(task, mean, other)];
  });
  if (changes.length === 0) {
    throw new HoldfastError("invalid_input", "no task has a reward in both collections");
  }
  const differences = changes.map(({ difference }) => ({ over: [difference], under: [1] }));
  const [better, worse] = [
    changes.filter((change) => change.difference > 0),
    changes.filter((change) => change.difference < 0),
  ];
  return {
    tasks: changes.length,
    difference: bootstrap(differences, seed)[0] ?? null,
    better: better.length,
    worse: worse.length,
    same: changes.length - better.length - worse.length,
    changed: [...better, ...worse].sort(byChange),
    only_first: [...a.keys()].filter((task) => !b.has(task)),
    only_second: [...b.keys()].filter((task) => !a.has(task)),
  };
}

/** Returns the mean reward for each task, sorted by number, because the random draw depends on the order of tasks. */
function meansByTask({ tasks }: ComparedCollection): Map<number, number> {
  const sorted = tasks.toSorted((a, b) => a.task - b.task);
  return new Map(sorted.flatMap(({ task, mean }) => (mean === null ? [] : [[task, mean] as const])));
}

/** Smaller differences are rounding errors: equal rewards added in a different order have slightly different sums. */
const rounding = 1e-12;

function toChange(task: number, first: number, second: number): TaskChange {
  const apart = second - first;
  const difference = Math.abs(apart) <= rounding * Math.max(Math.abs(first), Math.abs(second)) ? 0 : clamp(apart);
  return { task, first, second, difference };
}

const clamp = (value: number): number => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));

const byChange = (a: TaskChange, b: TaskChange): number =>
  Math.abs(b.difference) - Math.abs(a.difference) || a.task - b.task;

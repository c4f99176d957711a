// Two runs over the same tasks: by how much the second is better, how sure that is, and where it comes from.
import { HoldfastError } from "../core/errors.ts";
import { bootstrap } from "./metrics/bootstrap.ts";
import type { TaskMetrics } from "./metrics/task-table.ts";

/** What is compared of a run: the mean reward of each task that has one. */
export interface ComparedRun {
  tasks: Pick<TaskMetrics, "task" | "mean">[];
}

export interface CompareOptions {
  /** Of the interval: the same seed draws the same tasks. Default: 0. */
  seed?: number;
}

/** Means are rewards; a difference is the second less the first, so that above 0 the second is better. */
export interface TaskChange {
  task: number;
  first: number;
  second: number;
  difference: number;
}

export interface Comparison {
  /** How many tasks have a reward in both. */
  tasks: number;
  /** The mean over those tasks of the differences, with its interval of 95%. null where it is too large for a number. */
  difference: { value: number; low: number; high: number } | null;
  better: number;
  worse: number;
  same: number;
  /** The tasks that are better or worse, those that changed most first. */
  changed: TaskChange[];
  /** Tasks that have a reward in one of them only. */
  only_first: number[];
  only_second: number[];
}

/**
 * Compares two runs task by task, so that easy and hard tasks do not blur the difference. Only tasks that have a reward
 * in both count; without any it refuses, as there is nothing to say.
 *
 * @example
 * const { difference, changed } = compareRuns(before.result(), after.result());
 * difference; // { value: 0.125, low: 0.05, high: 0.2 }
 * changed[0]; // { task: 3, first: 0, second: 1, difference: 1 }
 */
export function compareRuns(first: ComparedRun, second: ComparedRun, { seed = 0 }: CompareOptions = {}): Comparison {
  const [a, b] = [meansOf(first), meansOf(second)];
  const changes = [...a].flatMap(([task, mean]) => {
    const other = b.get(task);
    return other === undefined ? [] : [changeOf(task, mean, other)];
  });
  if (changes.length === 0) {
    throw new HoldfastError("invalid_input", "the runs have no task in common that has a reward in both of them");
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

/** In the order of the tasks' numbers, as the draw depends on it. */
function meansOf({ tasks }: ComparedRun): Map<number, number> {
  const sorted = tasks.toSorted((a, b) => a.task - b.task);
  return new Map(sorted.flatMap(({ task, mean }) => (mean === null ? [] : [[task, mean] as const])));
}

/** The same rewards in another order add up to almost the same: what is left of that is no change. */
const rounding = 1e-12;

function changeOf(task: number, first: number, second: number): TaskChange {
  const apart = second - first;
  const difference = Math.abs(apart) <= rounding * Math.max(Math.abs(first), Math.abs(second)) ? 0 : clamp(apart);
  return { task, first, second, difference };
}

const clamp = (value: number): number => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));

const byChange = (a: TaskChange, b: TaskChange): number =>
  Math.abs(b.difference) - Math.abs(a.difference) || a.task - b.task;

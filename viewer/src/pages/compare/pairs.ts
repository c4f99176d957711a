// Pairs the tasks of two runs by number, with the reward in each run, and filters the pairs.
import { compareCollections, type Comparison } from "../../../../src/rollout/compare.ts";
import type { TaskGroup } from "../runs/groups.ts";
import { holds, type Range } from "../runs/range.ts";
import { sortedPlaces, type Key, type Sort } from "../runs/sort.ts";

/**
 * How a task changed from the first run to the second. `first` and `second`: the task has a reward only in that run.
 */
export type Change = "better" | "worse" | "same" | "first" | "second";

export interface Pair {
  task: number;
  /** null if the run has no reward for the task. */
  first: number | null;
  second: number | null;
  /** The second reward minus the first. */
  difference: number | null;
  change: Change;
  /** The number of rows in each run, and how many of them failed. */
  rows: readonly [number, number];
  failures: readonly [number, number];
}

export interface Paired {
  pairs: Pair[];
  /** undefined if no task has a reward in both runs. */
  comparison: Comparison | undefined;
  counts: { [change in Change]: number };
}

/** Pairs tasks in the order of their numbers. Ignores tasks without a reward in either run. */
export function pairTasks(first: readonly TaskGroup[], second: readonly TaskGroup[]): Paired {
  const [a, b] = [byTask(first), byTask(second)];
  const tasks = [...new Set([...a.keys(), ...b.keys()])].sort((one, other) => one - other);
  const hasBoth = tasks.some((task) => isScored(a.get(task)) && isScored(b.get(task)));
  const comparison = hasBoth ? compareCollections({ tasks: meansOf(first) }, { tasks: meansOf(second) }) : undefined;
  // Taken from compareCollections(), which does not report rounding errors as changes.
  const changed = new Map(comparison?.changed.map(({ task, difference }) => [task, difference]));
  const pairs = tasks.flatMap((task): Pair[] => {
    const [one, other] = [a.get(task), b.get(task)];
    const rows = [one?.rows.length ?? 0, other?.rows.length ?? 0] as const;
    const failures = [one?.failures ?? 0, other?.failures ?? 0] as const;
    const pair = { task, first: one?.reward ?? null, second: other?.reward ?? null, rows, failures };
    if (!isScored(one)) return isScored(other) ? [{ ...pair, difference: null, change: "second" }] : [];
    if (!isScored(other)) return [{ ...pair, difference: null, change: "first" }];
    const difference = changed.get(task) ?? 0;
    return [{ ...pair, difference, change: difference > 0 ? "better" : difference < 0 ? "worse" : "same" }];
  });
  const counts = { better: 0, worse: 0, same: 0, first: 0, second: 0 };
  for (const { change } of pairs) counts[change]++;
  return { pairs, comparison, counts };
}

const byTask = (groups: readonly TaskGroup[]): Map<number, TaskGroup> =>
  new Map(groups.map((group) => [group.task, group]));
const isScored = (group: TaskGroup | undefined): boolean => group !== undefined && group.reward !== null;
const meansOf = (groups: readonly TaskGroup[]): { task: number; mean: number | null }[] =>
  groups.map(({ task, reward }) => ({ task, mean: reward }));

export type Difference = NonNullable<Comparison["difference"]>;

/** Whether the confidence interval includes 0. */
export const mayBeChance = ({ low, high }: Difference): boolean => low <= 0 && high >= 0;

export interface PairFilter {
  /** "" selects every change. */
  change: string;
  difference: Range | undefined;
}

const keys: { [column: string]: (pair: Pair) => Key } = {
  task: ({ task }) => task,
  first: ({ first }) => first,
  second: ({ second }) => second,
  difference: ({ difference }) => difference,
  change: ({ change }) => change,
  "rows-first": ({ rows }) => rows[0],
  "rows-second": ({ rows }) => rows[1],
};

/** Returns the pairs that match the filter. Without a sort, the largest change comes first. */
export function shownPairs(pairs: readonly Pair[], filter: PairFilter, sort: Sort | undefined): Pair[] {
  const fitting = pairs.filter(
    ({ change, difference }) =>
      (filter.change === "" || change === filter.change) &&
      (!filter.difference || holds(filter.difference, difference)),
  );
  const bySize = ({ difference }: Pair): Key => (difference === null ? null : Math.abs(difference));
  const places = sort ? sortedPlaces(fitting, keys[sort.column], sort.isDown) : sortedPlaces(fitting, bySize, true);
  return Array.from(places, (at) => fitting[at] as Pair);
}

// Stores the numbers of all rollouts of a collection, and nothing else: a file may have a million rows.
import { HoldfastError } from "../../core/errors.ts";
import type { CountedRow } from "./row.ts";

export type Rollouts = ReturnType<typeof createRollouts>;

export interface Group {
  task: number;
  /** By index. A rollout without one keeps its position. */
  rollouts: number[];
}

/** More than any collection has, and few enough to protect a server against hostile rows. */
const mostColumns = 1_000;
/** Maximum number of metrics: each gets a confidence interval, which takes time. */
const mostMetrics = 20;

/** A rollout is identified by the index of its row. */
export function createRollouts() {
  const names: string[] = [];
  const columns = new Map<string, number>();
  // Lists of numbers instead of objects: they take a fraction of the memory.
  const [tasks, indices, answers, failures]: [number[], number[], number[], boolean[]] = [[], [], [], []];
  // The numbers of rollout r are at starts[r] up to starts[r + 1].
  const [starts, columnIds, values]: [number[], number[], number[]] = [[0], [], []];

  const metrics = new Set<string>();
  let hasEstimates = false;
  let tasksInOrder: (Group & { isSorted: boolean })[] | undefined;

  const orUndefined = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);

  function addColumns(row: CountedRow): void {
    const unknown = [...row.columns.keys()].filter((name) => !columns.has(name));
    if (names.length + unknown.length > mostColumns) {
      throw new HoldfastError("invalid_input", `the rows have more than ${mostColumns} different fields with numbers`);
    }
    for (const name of unknown) columns.set(name, names.push(name) - 1);
  }

  return {
    add(row: CountedRow): void {
      addColumns(row);
      tasksInOrder = undefined;
      for (const name of row.metrics) if (metrics.size < mostMetrics) metrics.add(name);
      hasEstimates ||= row.isEstimate;
      for (const [name, value] of row.columns) {
        columnIds.push(columns.get(name) as number);
        values.push(value);
      }
      starts.push(values.length);
      tasks.push(row.task);
      indices.push(row.index ?? NaN);
      answers.push(row.answer ?? NaN);
      failures.push(row.failure !== undefined);
    },
    count: (): number => tasks.length,
    /** Visits its numbers, in the order of the row. */
    each(rollout: number, visit: (column: string, value: number) => void): void {
      const [from = 0, to = 0] = [starts[rollout], starts[rollout + 1]];
      for (let at = from; at < to; at++) visit(names[columnIds[at] as number] as string, values[at] as number);
    },
    index: (rollout: number): number | undefined => orUndefined(indices[rollout]),
    answer: (rollout: number): number | undefined => orUndefined(answers[rollout]),
    failed: (rollout: number): boolean => failures[rollout] === true,
    /** The columns that come from the metrics of rows, in the order of their first occurrence. */
    metrics: (): string[] => [...metrics],
    /** True if the tokens of a row were estimated. */
    hasEstimates: (): boolean => hasEstimates,
    /** Returns the tasks in the order of their numbers. The order of rows with an index makes no difference. */
    *groups(): Iterable<Group> {
      tasksInOrder ??= split();
      for (const group of tasksInOrder) {
        // Sorted when it is asked for: a server pauses between two tasks.
        if (!group.isSorted) sort(group);
        yield group;
      }
    },
  };

  function split(): (Group & { isSorted: boolean })[] {
    const found: (Group & { isSorted: boolean })[] = [];
    const taskAt = (rollout: number | undefined): number => tasks[rollout as number] as number;
    const sorted = [...tasks.keys()].sort((a, b) => taskAt(a) - taskAt(b) || a - b);
    for (let from = 0, to = 0; from < sorted.length; from = to) {
      const task = taskAt(sorted[from]);
      while (to < sorted.length && taskAt(sorted[to]) === task) to++;
      found.push({ task, rollouts: sorted.slice(from, to), isSorted: false });
    }
    return found;
  }

  function sort(group: Group & { isSorted: boolean }): void {
    const places = group.rollouts.map((rollout, position) => orUndefined(indices[rollout]) ?? position);
    group.isSorted = true;
    if (places.every((place, at) => at === 0 || place > (places[at - 1] as number))) return;
    const placed = group.rollouts.map((rollout, at) => ({ rollout, place: places[at] as number }));
    placed.sort((a, b) => a.place - b.place || compareNumbers(a.rollout, b.rollout) || a.rollout - b.rollout);
    group.rollouts = placed.map(({ rollout }) => rollout);
  }

  function rewardOf(rollout: number): number {
    if (failures[rollout] === true) return -Infinity;
    const [from = 0, end = 0, column] = [starts[rollout], starts[rollout + 1], columns.get("reward")];
    for (let at = from; at < end; at++) if (columnIds[at] === column) return values[at] as number;
    return -Infinity;
  }

  /** Orders rollouts of the same index, such as forks, by their reward, then by their other numbers. */
  function compareNumbers(a: number, b: number): number {
    const [reward, otherReward] = [rewardOf(a), rewardOf(b)];
    if (reward !== otherReward) return reward < otherReward ? -1 : 1;
    const [from = 0, end = 0, other = 0] = [starts[a], starts[a + 1], starts[b]];
    for (let at = 0; from + at < end; at++) {
      const difference = (values[from + at] as number) - (values[other + at] as number);
      if (difference) return difference;
    }
    return 0;
  }
}

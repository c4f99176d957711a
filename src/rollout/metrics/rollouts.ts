// Stores only the numbers of a collection's rollouts, because a file may have a million rows.
import { HoldfastError } from "../../core/errors.ts";
import { sortSteps, type Steps } from "../../io/pace.ts";
import type { CountedRow } from "./row.ts";

export type Rollouts = ReturnType<typeof createRollouts>;

export interface Group {
  task: number;
  /** The rollouts, sorted by index. A rollout without an index is sorted by its position among the task's rows. */
  rollouts: number[];
}

/** Maximum number of numeric fields: more than any collection has, and safe for a server with malicious rows. */
const mostColumns = 1_000;
/** Maximum total length of these fields' names, because the metrics repeat each name about ten times. */
const longestNames = 200_000;
/** Maximum number of metrics: each gets a confidence interval, which takes time. */
const mostMetrics = 20;

/** A rollout is identified by the index of its row. */
export function createRollouts() {
  const names: string[] = [];
  const columns = new Map<string, number>();
  let namesLength = 0;
  // Uses lists of numbers rather than objects, because they take a fraction of the memory.
  const [tasks, indices, answers, failures]: [number[], number[], number[], boolean[]] = [[], [], [], []];
  const masked = new Set<number>();
  // The numbers of rollout r are at starts[r] up to starts[r + 1].
  const [starts, columnIds, values]: [number[], number[], number[]] = [[0], [], []];

  const metrics = new Set<string>();
  let hasEstimates = false;
  let tasksInOrder: Group[] | undefined;

  const orUndefined = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);

  function addColumns(row: CountedRow): void {
    const unknown = [...row.columns.keys()].filter((name) => !columns.has(name));
    if (names.length + unknown.length > mostColumns) {
      throw new HoldfastError("invalid_input", `the rows have more than ${mostColumns} different numeric fields`);
    }
    const length = unknown.reduce((sum, name) => sum + name.length, namesLength);
    if (length > longestNames) {
      const message = `the names of the rows' numeric fields have more than ${longestNames} characters in total`;
      throw new HoldfastError("invalid_input", message);
    }
    namesLength = length;
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
      if (row.isMasked) masked.add(tasks.length);
      tasks.push(row.task);
      indices.push(row.index ?? NaN);
      answers.push(row.answer ?? NaN);
      failures.push(row.failure !== undefined);
    },
    count: (): number => tasks.length,
    /** Visits a rollout's numbers, in the order of the row. */
    each(rollout: number, visit: (column: string, value: number) => void): void {
      const [from = 0, to = 0] = [starts[rollout], starts[rollout + 1]];
      for (let at = from; at < to; at++) visit(names[columnIds[at] as number] as string, values[at] as number);
    },
    index: (rollout: number): number | undefined => orUndefined(indices[rollout]),
    answer: (rollout: number): number | undefined => orUndefined(answers[rollout]),
    failed: (rollout: number): boolean => failures[rollout] === true,
    counts,
    masked: (): number => masked.size,
    /** The columns that come from the metrics of rows, in the order of their first occurrence. */
    metrics: (): string[] => [...metrics],
    /** True if the tokens of any row were estimated. */
    hasEstimates: (): boolean => hasEstimates,
    /** Returns the tasks in the order of their numbers. The order of rows with an index makes no difference. */
    *groups(): Steps<Group[]> {
      return (tasksInOrder ??= yield* split());
    },
  };

  function* split(): Steps<Group[]> {
    const byTask = new Map<number, number[]>();
    for (const [rollout, task] of tasks.entries()) {
      const group = byTask.get(task);
      if (group) group.push(rollout);
      else byTask.set(task, [rollout]);
      yield;
    }
    const found: Group[] = [];
    for (const task of Float64Array.from(byTask.keys()).sort()) {
      yield;
      found.push({ task, rollouts: yield* sort(byTask.get(task) ?? []) });
    }
    return found;
  }

  function* sort(group: number[]): Steps<number[]> {
    const placed = group.map((rollout, position) => ({ rollout, place: orUndefined(indices[rollout]) ?? position }));
    if (placed.every(({ place }, at) => at === 0 || place > (placed[at - 1]?.place as number))) return group;
    const sorted = yield* sortSteps(
      placed,
      (a, b) => a.place - b.place || compareNumbers(a.rollout, b.rollout) || a.rollout - b.rollout,
    );
    return sorted.map(({ rollout }) => rollout);
  }

  /** Returns whether a rollout neither failed nor is masked. Statistics include only the numbers of such rollouts. */
  function counts(rollout: number): boolean {
    return failures[rollout] !== true && !masked.has(rollout);
  }

  function rewardOf(rollout: number): number {
    if (!counts(rollout)) return -Infinity;
    const [from = 0, end = 0, column] = [starts[rollout], starts[rollout + 1], columns.get("reward")];
    for (let at = from; at < end; at++) if (columnIds[at] === column) return values[at] as number;
    return -Infinity;
  }

  /** Orders rollouts of the same index, such as forks, by their reward, then by their other numbers. */
  function compareNumbers(a: number, b: number): number {
    const [reward, otherReward] = [rewardOf(a), rewardOf(b)];
    if (reward !== otherReward) return reward < otherReward ? -1 : 1;
    const [from = 0, end = 0, other = 0, otherEnd = 0] = [starts[a], starts[a + 1], starts[b], starts[b + 1]];
    if (end - from !== otherEnd - other) return end - from - (otherEnd - other);
    for (let at = 0; from + at < end; at++) {
      const difference = (values[from + at] as number) - (values[other + at] as number);
      if (difference) return difference;
      // Compares names, because column numbers depend on the order of the rows.
      const [name = "", otherName = ""] = [names[columnIds[from + at]!], names[columnIds[other + at]!]];
      if (name !== otherName) return name < otherName ? -1 : 1;
    }
    return 0;
  }
}

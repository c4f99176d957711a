// Stores the numbers of all rollouts of a collection, and nothing else: a file may have a million rows.
import { HoldfastError } from "../../core/errors.ts";
import type { CountedRow } from "./row.ts";

/** A rollout is identified by the index of its row. */
export interface Rollouts {
  add(row: CountedRow): void;
  count(): number;
  /** Visits its numbers, in the order of the row. */
  each(rollout: number, visit: (column: string, value: number) => void): void;
  index(rollout: number): number | undefined;
  answer(rollout: number): number | undefined;
  failed(rollout: number): boolean;
  /** Returns the tasks in the order of their numbers. */
  groups(): Iterable<Group>;
}

export interface Group {
  task: number;
  /** In the order of their rows. */
  rollouts: number[];
}

/** More than any collection has, and few enough to protect a server against hostile rows. */
const mostColumns = 1_000;

export function createRollouts(): Rollouts {
  const names: string[] = [];
  const columns = new Map<string, number>();
  // Lists of numbers instead of objects: they take a fraction of the memory.
  const [tasks, indices, answers, failures]: [number[], number[], number[], boolean[]] = [[], [], [], []];
  // The numbers of rollout r are at starts[r] up to starts[r + 1].
  const [starts, columnIds, values]: [number[], number[], number[]] = [[0], [], []];

  const orUndefined = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);

  function addColumns(row: CountedRow): void {
    const unknown = [...row.columns.keys()].filter((name) => !columns.has(name));
    if (names.length + unknown.length > mostColumns) {
      throw new HoldfastError("invalid_input", `the rows have more than ${mostColumns} different fields with numbers`);
    }
    for (const name of unknown) columns.set(name, names.push(name) - 1);
  }

  return {
    add(row) {
      addColumns(row);
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
    count: () => tasks.length,
    each(rollout, visit) {
      const [from = 0, to = 0] = [starts[rollout], starts[rollout + 1]];
      for (let at = from; at < to; at++) visit(names[columnIds[at] as number] as string, values[at] as number);
    },
    index: (rollout) => orUndefined(indices[rollout]),
    answer: (rollout) => orUndefined(answers[rollout]),
    failed: (rollout) => failures[rollout] === true,
    *groups() {
      const taskAt = (rollout: number | undefined): number => tasks[rollout as number] as number;
      const sorted = [...tasks.keys()].sort((a, b) => taskAt(a) - taskAt(b) || a - b);
      for (let from = 0, to = 0; from < sorted.length; from = to) {
        const task = taskAt(sorted[from]);
        while (to < sorted.length && taskAt(sorted[to]) === task) to++;
        yield { task, rollouts: sorted.slice(from, to) };
      }
    },
  };
}

/** Sorts a group's rollouts by index; a rollout without one keeps its position. */
export function byIndex(rollouts: Rollouts, group: Group): number[] {
  const places = group.rollouts.map((rollout, position) => ({ rollout, at: rollouts.index(rollout) ?? position }));
  return places.sort((a, b) => a.at - b.at).map(({ rollout }) => rollout);
}

// The numbers of all rollouts of a run, kept row by row and nothing else, so that a file of a million rows can be read.
import { HoldfastError } from "../../core/errors.ts";
import { numberList } from "./number-list.ts";
import type { CountedRow } from "./row.ts";

/** A rollout is named by its place among the rows. */
export interface Rollouts {
  add(row: CountedRow): void;
  count(): number;
  /** Its numbers, in the order in which the row had them. */
  each(rollout: number, visit: (column: string, value: number) => void): void;
  index(rollout: number): number | undefined;
  answer(rollout: number): number | undefined;
  failed(rollout: number): boolean;
  /** The tasks in the order of their numbers. */
  groups(): Iterable<Group>;
}

export interface Group {
  task: number;
  /** In the order in which they came. */
  rollouts: number[];
}

/** More than any collection has, and few enough that nobody can keep a server busy with them. */
const mostColumns = 1_000;

export function createRollouts(): Rollouts {
  const names: string[] = [];
  const columns = new Map<string, number>();
  const [tasks, indices, answers] = [numberList(Float64Array), numberList(Float64Array), numberList(Float64Array)];
  const failures = numberList(Uint8Array);
  // The numbers of rollout r stand from starts[r] up to starts[r + 1].
  const [starts, columnOf, values] = [numberList(Float64Array), numberList(Uint16Array), numberList(Float64Array)];
  starts.push(0);

  const orUndefined = (value: number): number | undefined => (Number.isNaN(value) ? undefined : value);

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
        columnOf.push(columns.get(name) as number);
        values.push(value);
      }
      starts.push(values.length());
      tasks.push(row.task);
      indices.push(row.index ?? NaN);
      answers.push(row.answer ?? NaN);
      failures.push(row.failure === undefined ? 0 : 1);
    },
    count: () => tasks.length(),
    each(rollout, visit) {
      const end = starts.at(rollout + 1);
      for (let at = starts.at(rollout); at < end; at++) visit(names[columnOf.at(at)] as string, values.at(at));
    },
    index: (rollout) => orUndefined(indices.at(rollout)),
    answer: (rollout) => orUndefined(answers.at(rollout)),
    failed: (rollout) => failures.at(rollout) === 1,
    *groups() {
      const sorted = Array.from({ length: tasks.length() }, (_, rollout) => rollout);
      sorted.sort((a, b) => tasks.at(a) - tasks.at(b) || a - b);
      for (let from = 0, to = 0; from < sorted.length; from = to) {
        const task = tasks.at(sorted[from] as number);
        while (to < sorted.length && tasks.at(sorted[to] as number) === task) to++;
        yield { task, rollouts: sorted.slice(from, to) };
      }
    },
  };
}

/** A group's rollouts by their index; one without an index stands where it came. */
export function byIndex(rollouts: Rollouts, group: Group): number[] {
  const places = group.rollouts.map((rollout, position) => ({ rollout, at: rollouts.index(rollout) ?? position }));
  return places.sort((a, b) => a.at - b.at).map(({ rollout }) => rollout);
}

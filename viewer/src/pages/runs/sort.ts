// Sorts rows and tasks. Missing values come last in both directions.
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { taskOf } from "./filter.ts";
import type { TaskGroup } from "./groups.ts";

export interface Sort {
  column: string;
  isDown: boolean;
}

/** Parses the address parameter: "reward" for ascending, "-reward" for descending. */
export function readSort(text: string | null): Sort | undefined {
  if (text === null || text === "") return undefined;
  return text.startsWith("-") ? { column: text.slice(1), isDown: true } : { column: text, isDown: false };
}

/** The sort after a click on a column heading: ascending, descending, then none. */
export function nextSort(sort: Sort | undefined, column: string): string | undefined {
  if (sort?.column !== column) return column;
  return sort.isDown ? undefined : `-${column}`;
}

export type Key = number | string | null;

const rowKeys: { [column: string]: (row: RowSummary) => Key } = {
  row: ({ row }) => row,
  task: taskOf,
  repeat: ({ repeat }) => repeat,
  branch: ({ branch }) => branch,
  reward: ({ reward }) => reward,
  outcome: ({ outcome, kind, stopped }) => `${outcome} ${(outcome === "failed" ? kind : stopped) ?? ""}`,
  steps: ({ steps }) => steps,
  calls: ({ calls }) => calls,
  tokens: ({ tokens }) => tokens,
  time: ({ seconds }) => seconds,
  tools: ({ tools }) => (tools.length === 0 ? null : tools.join(" ")),
  prompt: ({ text }) => (text === "" ? null : text),
  text: ({ answer, reason }) => reason ?? (answer === "" ? null : answer),
};

/** Columns of verify's metrics are named "metrics/NAME". */
export const metricPrefix = "metrics/";

function rowKey(column: string): ((row: RowSummary) => Key) | undefined {
  if (!column.startsWith(metricPrefix)) return rowKeys[column];
  const name = column.slice(metricPrefix.length);
  return ({ metrics }) => (Object.hasOwn(metrics, name) ? (metrics[name] as number) : null);
}

const groupKeys: { [column: string]: (group: TaskGroup) => Key } = {
  row: ({ rows }) => rows.length,
  repeat: ({ rows }) => rows.length,
  reward: ({ reward }) => reward,
  outcome: ({ failures }) => failures,
  steps: ({ steps }) => steps,
  calls: ({ calls }) => calls,
  tokens: ({ tokens }) => tokens,
  time: ({ seconds }) => seconds,
};

/** Returns the sorted indexes of the rows. Equal rows are in the order of tasks and repeats, not of completion. */
export function sortRows(rows: readonly RowSummary[], sort: Sort | undefined): Uint32Array {
  const natural = Uint32Array.from(rows.keys()).sort((a, b) => byIndex(rows[a] as RowSummary, rows[b] as RowSummary));
  const key = sort && rowKey(sort.column);
  if (!key) return natural;
  const ordered = Array.from(natural, (at) => rows[at] as RowSummary);
  return sortedPlaces(ordered, key, sort.isDown).map((at) => natural[at] as number);
}

/** Rows without a repeat come last, in file order. */
const byIndex = (a: RowSummary, b: RowSummary): number =>
  taskOf(a) - taskOf(b) || compare(a.repeat, b.repeat, 1) || compare(a.branch, b.branch, 1) || a.row - b.row;

/** Sorts by the task's value in the column, or by task number if the column has no value for tasks. */
export function sortGroups(groups: readonly TaskGroup[], sort: Sort | undefined): TaskGroup[] {
  const key = sort && (groupKeys[sort.column] ?? (({ task }) => task));
  return Array.from(sortedPlaces(groups, key, sort?.isDown ?? false), (at) => groups[at] as TaskGroup);
}

/** Returns indexes sorted by a key, or in the original order without a key. */
export function sortedPlaces<T>(
  things: readonly T[],
  key: ((thing: T) => Key) | undefined,
  isDown: boolean,
): Uint32Array {
  const places = new Uint32Array(things.length);
  for (let at = 0; at < places.length; at++) places[at] = at;
  if (!key) return places;
  // Computed once, because each key is compared many times.
  const keys = things.map(key);
  const way = isDown ? -1 : 1;
  return places.sort((a, b) => compare(keys[a] as Key, keys[b] as Key, way) || a - b);
}

function compare(a: Key, b: Key, way: number): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a < b ? -way : a > b ? way : 0;
}

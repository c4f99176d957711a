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
  outcome: ({ outcome, kind, stopped }) => (outcome === "failed" ? `failed ${kind ?? ""}` : `scored ${stopped ?? ""}`),
  steps: ({ steps }) => steps,
  calls: ({ calls }) => calls,
  tokens: ({ tokens }) => tokens,
  time: ({ seconds }) => seconds,
  tools: ({ tools }) => (tools.length === 0 ? null : tools.join(" ")),
  text: ({ text }) => (text === "" ? null : text),
};

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

/** Returns the sorted indexes of the rows. Equal rows keep their order. */
export function sortRows(rows: readonly RowSummary[], sort: Sort | undefined): Uint32Array {
  return sortedPlaces(rows, sort && rowKeys[sort.column], sort?.isDown ?? false);
}

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

// Selects the rows to show. The whole filter is in the address.
import type { RowSummary } from "../../../../src/rollout/collection-view.ts";
import { holds, readRange, type Range } from "./range.ts";

/** The address parameters that filter rows. */
export const filterNames = ["q", "reward", "mean", "tokens", "task", "kind", "reason", "tool"] as const;

export interface Filter {
  /** Matched in the full text of a row, its session and its failure; lower case. */
  q: string;
  reward: Range | undefined;
  /** A range of the mean reward of the row's task. */
  mean: Range | undefined;
  tokens: Range | undefined;
  task: Range | undefined;
  /** "scored", "masked", "failed", "stopped", "failed/KIND" or "stopped/LIMIT". */
  kind: string;
  /** The reason of a failure, as `reasonGroup` returns it. */
  reason: string;
  tool: string;
}

export function readFilter(parameters: URLSearchParams): Filter {
  return {
    q: (parameters.get("q") ?? "").trim().toLowerCase(),
    reward: readRange(parameters.get("reward")),
    mean: readRange(parameters.get("mean")),
    tokens: readRange(parameters.get("tokens")),
    task: readRange(parameters.get("task")),
    kind: parameters.get("kind") ?? "",
    reason: parameters.get("reason") ?? "",
    tool: parameters.get("tool") ?? "",
  };
}

/** Values that the filter needs beyond the row itself. */
export interface FilterSources {
  /** The mean reward of a task; undefined if it has none. */
  meanOf(task: number): number | undefined;
  /** The searchable text of the summary at this index. */
  textOf(at: number): string;
  /** The rows that the search of the full text found so far. */
  found: ReadonlySet<number>;
}

/** Returns the indexes of the matching rows in the given order. */
export function filterRows(
  rows: readonly RowSummary[],
  order: Uint32Array,
  filter: Filter,
  sources: FilterSources,
): Uint32Array {
  const tests = buildTests(filter, sources);
  if (tests.length === 0) return order;
  const found = new Uint32Array(order.length);
  let count = 0;
  for (const at of order) {
    const row = rows[at] as RowSummary;
    if (tests.every((test) => test(row, at))) found[count++] = at;
  }
  return found.subarray(0, count);
}

type Test = (row: RowSummary, at: number) => boolean;

/** The text test is last, because it costs most and then sees the fewest rows. */
function buildTests(filter: Filter, { meanOf, textOf, found }: FilterSources): Test[] {
  const { q, reward, mean, tokens, task, kind, reason, tool } = filter;
  const tests: Test[] = [];
  if (reward) tests.push((row) => holds(reward, row.reward));
  if (tokens) tests.push((row) => holds(tokens, row.tokens));
  if (task) tests.push((row) => holds(task, taskOf(row)));
  if (mean) tests.push((row) => holds(mean, meanOf(taskOf(row))));
  if (kind !== "") tests.push(kindTest(kind));
  if (reason !== "") tests.push((row) => row.reason !== null && reasonGroup(row.reason) === reason);
  if (tool !== "") tests.push((row) => row.tools.includes(tool));
  if (q !== "") tests.push(({ row }, at) => found.has(row) || textOf(at).includes(q));
  return tests;
}

function kindTest(kind: string): Test {
  if (kind === "stopped") return (row) => row.stopped !== null;
  if (kind.startsWith("stopped/")) return (row) => row.stopped === kind.slice("stopped/".length);
  if (kind.startsWith("failed/")) {
    const wanted = kind.slice("failed/".length);
    return (row) => row.outcome === "failed" && (row.kind ?? "") === wanted;
  }
  return (row) => row.outcome === kind;
}

/** The task of a row. A row without a task number belongs to the first task, as in `holdfast metrics`. */
export const taskOf = ({ task }: RowSummary): number => task ?? 0;

/** Groups reasons that differ only in numbers, such as ports and durations. */
export const reasonGroup = (reason: string): string => reason.replaceAll(/\d+/g, "#");

/** The searchable text of each summary, built on first use. */
export function createSearchTexts(rows: readonly RowSummary[]): (at: number) => string {
  const texts: string[] = [];
  return (at) => {
    for (let next = texts.length; next <= at; next++) {
      const { text, answer, tools, session, kind, reason } = rows[next] as RowSummary;
      texts.push([text, answer, ...tools, session ?? "", kind ?? "", reason ?? ""].join("\n").toLowerCase());
    }
    return texts[at] as string;
  };
}

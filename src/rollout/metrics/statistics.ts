// Mean, maximum, minimum, median and standard deviation, under NeMo Gym's names.
import { setOwn } from "../../core/json.ts";
import type { Steps } from "../../io/pace.ts";

export type Metrics = { [name: string]: number };

type Visit = (column: string, value: number) => void;

/** Computes the statistics of every column, in order of first occurrence. `each` visits the numbers of a row. */
export function* statistics(rows: readonly number[], each: (row: number, visit: Visit) => void): Steps<Metrics> {
  const columns = new Map<string, number[]>();
  for (const row of rows) {
    each(row, (name, value) => {
      const values = columns.get(name);
      if (values) values.push(value);
      else columns.set(name, [value]);
    });
    yield;
  }
  const spreads = new Map<string, number | undefined>();
  for (const [name, values] of columns) {
    spreads.set(name, sampleStd(values));
    yield;
  }
  // If no column has a standard deviation, complete columns get 0. Otherwise columns without one are omitted.
  if ([...spreads.values()].every((spread) => spread === undefined)) {
    for (const [name, values] of columns) if (values.length === rows.length) spreads.set(name, 0);
  }
  const pairs: [string, number | undefined][] = [];
  for (const [name, statistic] of Object.entries({ mean, max: largest, min: smallest, median })) {
    for (const [column, values] of columns) {
      pairs.push([`${name}/${column}`, statistic(values)]);
      yield;
    }
  }
  for (const [column, spread] of spreads) pairs.push([`std/${column}`, spread]);
  return fromPairs(pairs);
}

export function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** Returns the mean; NaN for an empty list. */
export function mean(values: number[]): number {
  return sum(values) / values.length;
}

// Math.max(...values) would fail, because a call cannot take 100,000 arguments.
export function largest(values: number[]): number {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

export function smallest(values: number[]): number {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

/** Returns the sample standard deviation; undefined for fewer than two values. */
export function sampleStd(values: number[]): number | undefined {
  if (values.length < 2) return undefined;
  const average = mean(values);
  return Math.sqrt(values.reduce((total, value) => total + (value - average) ** 2, 0) / (values.length - 1));
}

/** Builds an object without values that JSON does not have: -0 becomes 0, and infinite sums are omitted. */
export function fromPairs(pairs: Iterable<readonly [string, number | undefined]>): Metrics {
  const metrics: Metrics = {};
  for (const [name, value] of pairs) {
    const kept = finite(value);
    if (kept !== null) setOwn(metrics, name, kept);
  }
  return metrics;
}

/** Returns the number as JSON; null if it is not finite. */
export function finite(value: number | undefined): number | null {
  return value !== undefined && Number.isFinite(value) ? value || 0 : null;
}

function median(values: number[]): number {
  // Sorting a typed array with a million numbers is ten times as fast as sorting a list.
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : mean([...sorted.subarray(middle - 1, middle + 1)]);
}

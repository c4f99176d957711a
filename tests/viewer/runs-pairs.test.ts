// Two runs paired by task: the differences equal those of `holdfast metrics A B`.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RowSummary } from "../../src/rollout/collection-view.ts";
import { mayBeChance, pairTasks, shownPairs } from "../../viewer/src/pages/compare/pairs.ts";
import { groupRows, type TaskGroup } from "../../viewer/src/pages/runs/groups.ts";
import { readRange } from "../../viewer/src/pages/runs/range.ts";
import { readSort } from "../../viewer/src/pages/runs/sort.ts";
import { rowOf, someRows } from "./runs-rows.ts";

const scored = (task: number, reward: number): RowSummary => rowOf({ task, reward });
const grouped = (rows: RowSummary[]): TaskGroup[] => groupRows(rows, rows.keys());

test("a difference may be chance if its interval includes 0", () => {
  expect(mayBeChance({ value: -0.0012, low: -0.0157, high: 0.0118 })).toBe(true);
  expect(mayBeChance({ value: 0.1, low: 0.02, high: 0.2 })).toBe(false);
  expect(mayBeChance({ value: -0.1, low: -0.2, high: -0.02 })).toBe(false);
});

test("two runs are paired as `holdfast metrics A B` compares them", () => {
  fc.assert(
    fc.property(someRows, someRows, (first, second) => {
      const { pairs, comparison, counts } = pairTasks(grouped(first), grouped(second));
      const both = pairs.filter(({ difference }) => difference !== null);
      expect(comparison?.tasks ?? 0).toBe(both.length);
      if (!comparison) return;
      expect(counts).toMatchObject({ better: comparison.better, worse: comparison.worse, same: comparison.same });
      expect([counts.first, counts.second]).toEqual([comparison.only_first.length, comparison.only_second.length]);
      const changed = shownPairs(pairs, { change: "", difference: undefined }, undefined);
      expect(changed.slice(0, comparison.changed.length).map(({ task }) => task)).toEqual(
        comparison.changed.map(({ task }) => task),
      );
      for (const { first, second, difference } of both) {
        expect(difference).toBeCloseTo((second as number) - (first as number), 9);
      }
    }),
    { numRuns: 30 },
  );
});

test("runs without a common task are paired without a comparison", () => {
  const { pairs, comparison, counts } = pairTasks(grouped([scored(1, 1)]), grouped([scored(2, 1)]));
  expect(comparison).toBeUndefined();
  expect(counts).toEqual({ better: 0, worse: 0, same: 0, first: 1, second: 1 });
  expect(pairs.map(({ task, rows }) => [task, ...rows])).toEqual([
    [1, 1, 0],
    [2, 0, 1],
  ]);
});

test("pairs are filtered by change and sorted by a column", () => {
  const { pairs } = pairTasks(
    grouped([scored(0, 0), scored(1, 1), scored(2, 0.5)]),
    grouped([scored(0, 1), scored(1, 0.5), scored(2, 0.5)]),
  );
  const tasks = (change: string, range: string, sort: string): number[] =>
    shownPairs(pairs, { change, difference: readRange(range) }, readSort(sort)).map(({ task }) => task);
  expect(tasks("", "", "")).toEqual([0, 1, 2]);
  expect(tasks("worse", "", "")).toEqual([1]);
  expect(tasks("", "-1..<0.5", "-difference")).toEqual([2, 1]);
  expect(tasks("", "", "-first")).toEqual([1, 2, 0]);
});

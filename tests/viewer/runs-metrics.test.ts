// The metrics of a run on the page equal those of `holdfast metrics`.
import fc from "fast-check";
import { expect, test } from "vitest";
import { createMetrics, type CollectionMetrics } from "../../src/rollout/metrics.ts";
import type { RowSummary } from "../../src/rollout/collection-view.ts";
import { computeRunMetrics, rewardInterval } from "../../viewer/src/pages/runs/run-metrics.ts";
import { foldedLines, groupRows } from "../../viewer/src/pages/runs/groups.ts";
import { readSort, sortGroups } from "../../viewer/src/pages/runs/sort.ts";
import { fileRow, rowOf, someRows } from "./runs-rows.ts";

function metricsOf(rows: RowSummary[]): CollectionMetrics {
  const metrics = createMetrics();
  for (const row of rows) metrics.add(fileRow(row));
  return metrics.result();
}

test("the metrics of a run equal those of `holdfast metrics`", () => {
  fc.assert(
    fc.property(someRows, (rows) => {
      const [shown, metrics] = [computeRunMetrics(rows), metricsOf(rows)];
      expect(shown.scored).toBe(metrics.scored);
      expect(shown.kinds).toEqual(metrics.failures);
      expect(shown.rewards).toEqual(metrics.histogram);
      expect([shown.tokens, shown.seconds]).toEqual([metrics.tokens.total, metrics.seconds]);
      const [best, worst] = shown.isRate ? ["pass@", "pass^"] : ["best@", "worst@"];
      const score = shown.isRate ? "accuracy" : "reward";
      shown.best.forEach((value, at) => close(value, metrics.pass_metrics[`${best}${at + 1}/${score}`]));
      shown.worst.forEach((value, at) => close(value, metrics.pass_metrics[`${worst}${at + 1}/${score}`]));
      expect(metrics.pass_metrics[`${best}${shown.best.length + 1}/${score}`]).toBeUndefined();
      expect(shown.tasks.map(({ task }) => task)).toEqual(metrics.tasks.map(({ task }) => task));
      shown.tasks.forEach((task, at) => {
        const { mean, scored, failures, rollouts } = metrics.tasks[at] as CollectionMetrics["tasks"][number];
        expect([task.rows.length, task.scored, task.failures]).toEqual([rollouts, scored, failures]);
        if (mean === null) expect(task.reward).toBeNull();
        else expect(task.reward).toBeCloseTo(mean, 9);
      });
    }),
    { numRuns: 30 },
  );
});

function close(shown: number | undefined, value: number | undefined): void {
  if (value === undefined) expect(shown).toBeUndefined();
  else expect(shown).toBeCloseTo(value, 9);
}

test("the interval of the mean reward equals that of `holdfast metrics`", () => {
  const rows = Array.from({ length: 40 }, (_, row) =>
    rowOf({ row, task: row % 10, reward: (row * 7) % 3 === 0 ? 1 : 0 }),
  );
  const [estimate] = metricsOf(rows).estimates;
  const interval = rewardInterval(computeRunMetrics(rows).tasks);
  expect(interval?.value).toBeCloseTo(estimate?.value as number, 9);
  expect(interval?.low).toBeCloseTo(estimate?.low as number, 9);
  expect(interval?.high).toBeCloseTo(estimate?.high as number, 9);
  expect(rewardInterval(computeRunMetrics(rows.slice(0, 1)).tasks)).toBeUndefined();
});

test("an empty run has no metrics and does not fail", () => {
  expect(computeRunMetrics([])).toMatchObject({
    rows: 0,
    reward: null,
    tokens: null,
    rewards: [],
    best: [],
    tools: [],
  });
});

test("every row is in its task's group only", () => {
  fc.assert(
    fc.property(someRows, (rows) => {
      const groups = groupRows(rows, rows.keys());
      expect(groups.flatMap((group) => group.rows).sort((a, b) => a - b)).toEqual([...rows.keys()]);
      for (const { task, rows: places } of groups) {
        for (const at of places) expect(rows[at]?.task ?? 0).toBe(task);
      }
    }),
  );
});

test("an unfolded task is followed by its rows in order", () => {
  const rows = [0, 1, 0, 2].map((task, row) => rowOf({ row, task }));
  const groups = groupRows(rows, [3, 2, 1, 0]);
  expect([...foldedLines(groups, new Set())]).toEqual([~0, ~1, ~2]);
  expect([...foldedLines(groups, new Set([0, 2]))]).toEqual([~0, 2, 0, ~1, ~2, 3]);
});

test("tasks are sorted by mean, with missing means last", () => {
  const rewards = [0, 1, null, 0.5];
  const groups = groupRows(
    rewards.map((reward, task) => rowOf({ row: task, task, reward })),
    rewards.keys(),
  );
  const sorted = (text: string): number[] => sortGroups(groups, readSort(text)).map(({ task }) => task);
  expect(sorted("reward")).toEqual([0, 3, 1, 2]);
  expect(sorted("-reward")).toEqual([1, 3, 0, 2]);
  expect(sorted("-text")).toEqual([3, 2, 1, 0]);
});

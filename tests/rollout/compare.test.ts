// Two runs compared task by task.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareCollections } from "../../src/rollout/compare.ts";
import { createMetrics, type CollectionMetrics } from "../../src/rollout/metrics.ts";
import { runs } from "../runs.ts";

type Rewards = { [task: number]: (number | null)[] };

/** A run from the rewards of its tasks. */
function run(tasks: Rewards): CollectionMetrics {
  const metrics = createMetrics();
  for (const [task, rewards] of Object.entries(tasks)) {
    for (const [index, reward] of rewards.entries()) {
      metrics.add({ _ng_task_index: Number(task), _ng_rollout_index: index, reward });
    }
  }
  return metrics.result();
}

const rewards = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 5 });
const tasks = fc.dictionary(fc.integer({ min: 0, max: 9 }).map(String), rewards, { minKeys: 1, maxKeys: 8 });

describe("compareRuns", () => {
  const before = { 0: [0, 0], 1: [1, 0], 2: [1, 1], 3: [0.5], 9: [1] };
  const after = { 0: [1, 1], 1: [1, 0], 2: [1, 0], 3: [0.25], 7: [0] };

  test("pairs the tasks, counts better, worse and equal ones, and names the largest changes", () => {
    const { difference, ...rest } = compareCollections(run(before), run(after));
    expect(rest).toEqual({
      tasks: 4,
      better: 1,
      worse: 2,
      same: 1,
      only_first: [9],
      only_second: [7],
      changed: [
        { task: 0, first: 0, second: 1, difference: 1 },
        { task: 2, first: 1, second: 0.5, difference: -0.5 },
        { task: 3, first: 0.5, second: 0.25, difference: -0.25 },
      ],
    });
    expect(difference?.value).toBe(0.25 / 4);
    expect(difference?.low).toBeLessThan(0);
    expect(difference?.high).toBeGreaterThan(0.25);
  });

  test("the interval is that of the differences: a gain in every task is certain, however far tasks are apart", () => {
    const easyAndHard = Array.from({ length: 40 }, (_, task) => task / 10);
    const gain = compareCollections(
      run(Object.fromEntries(easyAndHard.map((reward, task) => [task, [reward]]))),
      run(Object.fromEntries(easyAndHard.map((reward, task) => [task, [reward + 0.1 + (task % 2) / 100]]))),
    );
    expect(gain.difference?.value).toBeCloseTo(0.105, 10);
    expect(gain.difference?.low).toBeGreaterThan(0.1);
    expect(gain.difference?.high).toBeLessThan(0.11);
  });

  test("a run compared with itself differs by 0, with an interval of [0, 0]", () => {
    fc.assert(
      fc.property(tasks, fc.integer(), (tasks, seed) => {
        const same = run(tasks);
        // Huge rewards may have no mean: then there is nothing to compare.
        fc.pre(same.tasks.some(({ mean }) => mean !== null));
        const { difference, better, worse, changed } = compareCollections(same, same, { seed });
        expect({ difference, better, worse, changed }).toEqual({
          difference: { value: 0, low: 0, high: 0 },
          better: 0,
          worse: 0,
          changed: [],
        });
      }),
      { numRuns: runs(60) },
    );
  });

  test("the reverse comparison is the negative, and a seed gives the same again", () => {
    fc.assert(
      fc.property(tasks, tasks, (first, second) => {
        const [a, b] = [run({ ...first, 0: [0] }), run({ ...second, 0: [1] })];
        const [there, back] = [compareCollections(a, b), compareCollections(b, a)];
        expect(compareCollections(a, b)).toEqual(there);
        expect([back.better, back.worse, back.same]).toEqual([there.worse, there.better, there.same]);
        expect([back.only_first, back.only_second]).toEqual([there.only_second, there.only_first]);
        if (there.difference) expect(back.difference?.value).toBe(-there.difference.value || 0);
        expect(JSON.parse(JSON.stringify(there))).toEqual(there);
      }),
      { numRuns: runs(60) },
    );
  });

  test("the same rewards in another order are not a change", () => {
    const { same, changed } = compareCollections(run({ 0: [0.1, 0.2, 0.3] }), run({ 0: [0.3, 0.2, 0.1] }));
    expect({ same, changed }).toEqual({ same: 1, changed: [] });
  });

  test("a task without a reward in one run counts for the other only, and runs without a common task are refused", () => {
    expect(compareCollections(run({ 0: [1], 1: [1] }), run({ 0: [1], 1: [null] }))).toMatchObject({
      tasks: 1,
      only_first: [1],
    });
    for (const [a, b] of [
      [{ 0: [1] }, { 1: [1] }],
      [{ 0: [1] }, { 0: [null] }],
      [{}, {}],
    ] as [Rewards, Rewards][]) {
      expect(() => compareCollections(run(a), run(b))).toThrow(expect.objectContaining({ code: "invalid_input" }));
    }
  });
});

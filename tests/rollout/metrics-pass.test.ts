// pass@k and pass^k, against the worked example of NeMo Gym and against counting every choice of k.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { passMetrics } from "../../src/rollout/metrics/pass.ts";
import { runs } from "../runs.ts";

const binary = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 8 });
const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 8 });

/** Every way to choose k of these. */
function choices(scores: number[], k: number): number[][] {
  if (k === 0) return [[]];
  return scores.flatMap((score, at) => choices(scores.slice(at + 1), k - 1).map((rest) => [score, ...rest]));
}

const share = (all: number[][], holds: (chosen: number[]) => boolean): number => all.filter(holds).length / all.length;
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("passMetrics", () => {
  const example = passMetrics([
    [1, 0, 1, 0],
    [0, 0, 0, 0],
  ]);

  test("agrees with the worked example to the digit", () => {
    const rounded = Object.fromEntries(Object.entries(example).map(([name, value]) => [name, value.toFixed(2)]));
    expect(rounded).toMatchObject({
      "pass@1/accuracy": "25.00",
      "pass@2/accuracy": "41.67",
      "pass@4/accuracy": "50.00",
      "pass@1[avg-of-2]/accuracy": "25.00",
      "pass@1[avg-of-4]/accuracy/std_dev_across_runs": "28.87",
      "pass@1[avg-of-4]/accuracy/std_err_across_runs": "14.43",
    });
  });

  test("gives all names for each k, and no spread across a single run", () => {
    expect(Object.keys(example).slice(0, 8)).toEqual([
      "pass@1/accuracy",
      "pass^1/accuracy",
      "pass@1[avg-of-1]/accuracy",
      "pass@2/accuracy",
      "pass^2/accuracy",
      "pass@1[avg-of-2]/accuracy",
      "pass@1[avg-of-2]/accuracy/std_dev_across_runs",
      "pass@1[avg-of-2]/accuracy/std_err_across_runs",
    ]);
    expect(example).not.toHaveProperty(["majority@1/accuracy"]);
    expect(passMetrics([])).toEqual({});
  });

  test("pass^k is how often all of k succeed", () => {
    expect(example["pass^1/accuracy"]).toBe(25);
    // One of the six pairs of the first task.
    expect(example["pass^2/accuracy"]).toBeCloseTo(100 / 12, 10);
    expect(example["pass^3/accuracy"]).toBe(0);
  });

  test("pass@k and pass^k equal a count over every choice of k rollouts", () => {
    fc.assert(
      fc.property(fc.array(binary, { minLength: 1, maxLength: 4 }), (tasks) => {
        const metrics = passMetrics(tasks);
        for (let k = 1; tasks.some(({ length }) => length >= k); k++) {
          const all = tasks.filter(({ length }) => length >= k).map((scores) => choices(scores, k));
          const any = mean(all.map((chosen) => share(chosen, (scores) => scores.includes(1))));
          const every = mean(all.map((chosen) => share(chosen, (scores) => !scores.includes(0))));
          expect(metrics[`pass@${k}/accuracy`]).toBeCloseTo(100 * any, 8);
          expect(metrics[`pass^${k}/accuracy`]).toBeCloseTo(100 * every, 8);
        }
      }),
      { numRuns: runs(200) },
    );
  });

  test("other scores have best@k and worst@k: the mean over every choice of k rollouts", () => {
    const metrics = passMetrics([[0.5, 0.25], [0.75]]);
    expect(metrics).toMatchObject({ "best@1/reward": 0.5625, "best@2/reward": 0.5, "worst@2/reward": 0.25 });
    expect(Object.keys(metrics).join()).not.toContain("pass");
    fc.assert(
      fc.property(fractions, (given) => {
        const scores = [...given, 0.5];
        const metrics = passMetrics([scores]);
        scores.forEach((_, at) => {
          const all = choices(scores, at + 1);
          expect(metrics[`best@${at + 1}/reward`]).toBeCloseTo(mean(all.map((chosen) => Math.max(...chosen))), 9);
          expect(metrics[`worst@${at + 1}/reward`]).toBeCloseTo(mean(all.map((chosen) => Math.min(...chosen))), 9);
        });
      }),
      { numRuns: runs(100) },
    );
  });

  test("a rollout without a score keeps its position, and counts nowhere", () => {
    const metrics = passMetrics([
      [undefined, 1, 1],
      [0, 0, undefined],
    ]);
    // The first task has two scores, both right; so has the second, both wrong.
    expect(metrics).toMatchObject({ "pass@1/accuracy": 50, "pass@2/accuracy": 50 });
    expect(metrics).not.toHaveProperty(["pass@3/accuracy"]);
    // The runs are [0], [1, 0] and [1]: 0, 50 and 100.
    expect(metrics).toMatchObject({ "pass@1[avg-of-1]/accuracy": 0, "pass@1[avg-of-3]/accuracy": 50 });
    expect(metrics["pass@1[avg-of-3]/accuracy/std_dev_across_runs"]).toBe(50);
  });

  test("majority@k is the score of the most common answer; ties share it, and no answer is worth 0", () => {
    const scores = [[1, 0, 0, 1, 1]];
    const majority = (answers: (number | undefined)[]): (number | undefined)[] => {
      const metrics = passMetrics(scores, { answers: [answers] });
      return [1, 2, 3, 4, 5].map((k) => metrics[`majority@${k}/accuracy`]);
    };
    expect(majority([7, 8, 8, 7, 7])).toEqual([100, 50, 0, 50, 100]);
    expect(majority([undefined, undefined, 8, undefined, 7])).toEqual([0, 0, 0, 0, 50]);
    // The same answer with another score is another answer.
    expect(majority([7, 7, 7, 9, 9])).toEqual([100, 50, 0, 0, 50]);
  });

  test("majority@k of a task with fewer rollouts uses all of them", () => {
    const metrics = passMetrics([[1], [0, 0]], { answers: [[1], [2, 2]] });
    expect(metrics).toMatchObject({ "majority@1/accuracy": 50, "majority@2/accuracy": 50 });
  });

  test("a task with a million rollouts gives the first thousand k", () => {
    const metrics = passMetrics([Array.from({ length: 1_000_000 }, (_, at) => (at % 2) / 2)]);
    expect(metrics).toHaveProperty(["best@1000/reward"], 0.5);
    expect(metrics).not.toHaveProperty(["best@1001/reward"]);
  });

  test("huge scores omit values too large for a number", () => {
    const metrics = passMetrics([[1.7e308, -1.7e308]]);
    expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
  });
});

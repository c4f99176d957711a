// Confidence intervals: repeatable, around the value, and about as wide as theory predicts.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bootstrap, type Interval } from "../../src/rollout/metrics/bootstrap.ts";
import { runs } from "../runs.ts";

const share = fc
  .array(fc.tuple(fc.double({ noNaN: true, min: -1e6, max: 1e6 }), fc.integer({ min: 1, max: 8 })), { maxLength: 3 })
  .map((pairs) => ({ over: pairs.map(([over]) => over), under: pairs.map(([, under]) => under) }));
const shares = fc.array(share, { maxLength: 12 });
const seed = fc.integer({ min: 0, max: 0xffffffff });

const successes = (right: number, all: number): { over: number[]; under: number[] }[] =>
  Array.from({ length: all }, (_, at) => ({ over: [at < right ? 1 : 0], under: [1] }));

describe("bootstrap", () => {
  test("gives the same interval for the same seed, which contains the value itself", () => {
    fc.assert(
      fc.property(shares, seed, (tasks, seed) => {
        const intervals = bootstrap(tasks, seed);
        expect(bootstrap(tasks, seed)).toEqual(intervals);
        for (const { value, low, high } of intervals as Interval[]) {
          expect(low).toBeLessThanOrEqual(value);
          expect(high).toBeGreaterThanOrEqual(value);
        }
      }),
      { numRuns: runs(40) },
    );
  });

  test("another seed draws other tasks", () => {
    const tasks = Array.from({ length: 50 }, (_, at) => ({ over: [Math.sqrt(at)], under: [1] }));
    expect(bootstrap(tasks, 1)).not.toEqual(bootstrap(tasks, 2));
  });

  test("a task brings all its rollouts: the value is a sum over a sum", () => {
    const [interval] = bootstrap(
      [
        { over: [3], under: [3] },
        { over: [0], under: [1] },
      ],
      0,
    );
    expect(interval).toEqual({ value: 0.75, low: 0, high: 1 });
  });

  test.each([100, 2_500, 40_000])("of %i tasks it is about as wide as that of a normal distribution", (tasks) => {
    const [interval] = bootstrap(successes(tasks * 0.3, tasks), 5) as Interval[];
    const half = 1.96 * Math.sqrt((0.3 * 0.7) / tasks);
    expect(interval?.value).toBeCloseTo(0.3, 10);
    // For 100 tasks it has steps of 0.01, an eighth of that width.
    for (const end of [interval?.low, interval?.high]) {
      expect(Math.abs((end ?? NaN) - 0.3) / half).toBeGreaterThan(0.85);
      expect(Math.abs((end ?? NaN) - 0.3) / half).toBeLessThan(1.15);
    }
  });

  test("contains the truth about 95 times in 100", () => {
    let held = 0;
    for (let sample = 0; sample < 200; sample++) {
      // 60 tasks, each with a success probability of 0.5, drawn from the bits of a hash.
      const tasks = Array.from({ length: 60 }, (_, at) => {
        const bits = Math.imul((sample * 60 + at + 1) ^ ((sample * 60 + at) << 13), 0x9e3779b1);
        return { over: [(Math.imul(bits ^ (bits >>> 15), 0x85ebca77) >>> 31) & 1], under: [1] };
      });
      const [interval] = bootstrap(tasks, sample) as Interval[];
      if (interval && interval.low <= 0.5 && interval.high >= 0.5) held++;
    }
    expect(held).toBeGreaterThan(180);
  });

  test("a metric of some tasks is drawn from those, and one without a finite value is null", () => {
    const tasks = [
      { over: [1, 5], under: [1, 1] },
      { over: [0], under: [1] },
      { over: [0, 1e308], under: [1, 0] },
    ];
    expect(bootstrap(tasks.slice(0, 2), 0)[1]).toEqual({ value: 5, low: 5, high: 5 });
    const huge = [1.7e308, 1.7e308].map((over) => ({ over: [over], under: [1] }));
    expect(bootstrap(huge, 0)).toEqual([null]);
    expect(bootstrap([{ over: [0], under: [0] }], 0)).toEqual([null]);
    expect(bootstrap([], 0)).toEqual([]);
  });
});

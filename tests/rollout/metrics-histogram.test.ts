// Histograms of rewards: every value is counted once, and every line fits the terminal.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { histogram, binLines } from "../../src/rollout/metrics/histogram.ts";
import { runs } from "../runs.ts";

describe("histogram", () => {
  test("few values have a bin each, many have ten of the same width", () => {
    expect(histogram([1, 0, 1])).toEqual([
      { from: 0, to: 0, count: 1 },
      { from: 1, to: 1, count: 2 },
    ]);
    const bins = histogram(Array.from({ length: 101 }, (_, at) => at));
    expect(bins.map(({ from }) => from)).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    expect(bins.map(({ count }) => count)).toEqual([10, 10, 10, 10, 10, 10, 10, 10, 10, 11]);
    expect(histogram([])).toEqual([]);
  });

  test("counts every finite value once, in a bin that contains it", () => {
    fc.assert(
      fc.property(fc.array(fc.double(), { maxLength: 60 }), (values) => {
        const bins = histogram(values);
        const finite = values.filter(Number.isFinite);
        expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(finite.length);
        for (const { from, to, count } of bins) {
          expect(finite.filter((value) => value >= from && value <= to).length).toBeGreaterThanOrEqual(count);
        }
        expect(JSON.parse(JSON.stringify(bins))).toEqual(bins);
      }),
      { numRuns: runs(300) },
    );
  });
});

describe("binLines", () => {
  test("draws a bar for each bin, the longest for the largest count", () => {
    expect(binLines(histogram([0, 1, 1]), 20)).toEqual(["0 ████████         1", "1 ████████████████ 2"]);
    expect(binLines([], 80)).toEqual([]);
  });

  test("a small count stays visible: one among thousands has a bar", () => {
    const [one] = binLines(histogram([0, ...Array.from({ length: 9_999 }, () => 1)]), 40);
    expect(one).toMatch(/^0 ▏ +1$/);
  });

  test("all lines have the requested width, for any values", () => {
    fc.assert(
      fc.property(fc.array(fc.double(), { maxLength: 40 }), fc.oneof(fc.integer(), fc.double()), (values, width) => {
        const lines = binLines(histogram(values), width);
        expect(new Set(lines.map((line) => line.length)).size).toBeLessThanOrEqual(1);
        for (const line of lines) expect(line.length).toBeLessThanOrEqual(Math.max(60, Math.min(width || 0, 1_000)));
      }),
      { numRuns: runs(300) },
    );
  });
});

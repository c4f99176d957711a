// Positions of chart marks: every value is in exactly one cell.
import fc from "fast-check";
import { expect, test } from "vitest";
import { cellRanges, groupIntoCells } from "../../viewer/src/charts/cells.ts";
import { scale, ticks } from "../../viewer/src/charts/scale.ts";
import { holds } from "../../viewer/src/pages/runs/range.ts";

/** Most values lie on the edges between cells. */
const value = fc.oneof(
  { weight: 4, arbitrary: fc.nat(30).map((tenths) => tenths / 10) },
  fc.double({ min: -1e9, max: 1e9, noNaN: true }),
  fc.constant(NaN),
);

test("a cell's filter selects as many rows as the cell counts, and every row is in one cell", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(value, value), { maxLength: 80 }), fc.integer({ min: 1, max: 30 }), (pairs, size) => {
      const known = pairs.filter((pair) => pair.every(Number.isFinite));
      const found = groupIntoCells(Float64Array.from(pairs.flat()), size, 10);
      expect(found === undefined).toBe(known.length === 0);
      for (const cell of found?.cells ?? []) {
        const [x, y] = cellRanges(cell);
        expect(known.filter((pair) => holds(x, pair[0]) && holds(y, pair[1]))).toHaveLength(cell.count);
      }
      expect(found?.cells.reduce((total, { count }) => total + count, 0) ?? 0).toBe(known.length);
    }),
  );
});

test("axis numbers are round, ascending and inside the axis", () => {
  fc.assert(
    fc.property(
      fc.double({ min: -1e6, max: 1e6, noNaN: true }),
      fc.double({ min: 1e-3, max: 1e6, noNaN: true }),
      (low, size) => {
        const found = ticks(low, low + size);
        expect(found.length).toBeGreaterThan(0);
        expect(found.length).toBeLessThanOrEqual(6);
        expect(found).toEqual([...new Set(found)].sort((a, b) => a - b));
        for (const tick of found) {
          expect(tick).toBeGreaterThanOrEqual(low - size * 1e-6);
          expect(tick).toBeLessThanOrEqual(low + size * (1 + 1e-6));
        }
      },
    ),
  );
  expect(ticks(0, 1)).toEqual([0, 0.5, 1]);
  expect(ticks(-1, 0.5, 3)).toEqual([-1, -0.5, 0, 0.5]);
  expect(ticks(3, 3)).toEqual([3]);
});

test("a scale maps end to end, and to the middle if all values are equal", () => {
  const place = scale([-1, 3], [100, 0]);
  expect([-1, 1, 3].map(place)).toEqual([100, 50, 0]);
  expect(scale([2, 2], [0, 10])(2)).toBe(5);
  expect(scale([-1.7e308, 1.7e308], [0, 10])(0)).toBe(5);
});

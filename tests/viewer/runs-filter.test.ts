// Filtering, sorting and grouping rows: the fast code gives the same result as a naive one.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RowSummary } from "../../src/rollout/collection-view.ts";
import { computeRunMetrics } from "../../viewer/src/pages/runs/run-metrics.ts";
import { filterRows, readFilter, createSearchTexts } from "../../viewer/src/pages/runs/filter.ts";
import { barRange, holds, overlaps, rangeText, readRange } from "../../viewer/src/pages/runs/range.ts";
import { nextSort, readSort, sortRows } from "../../viewer/src/pages/runs/sort.ts";
import { rowOf, someRows } from "./runs-rows.ts";

function shown(rows: RowSummary[], parameters: string, found: number[] = []): RowSummary[] {
  const asked = new URLSearchParams(parameters);
  const { means } = computeRunMetrics(rows);
  const sources = {
    textOf: createSearchTexts(rows),
    found: new Set(found),
    meanOf: (task: number) => means.get(task),
  };
  const places = filterRows(rows, sortRows(rows, readSort(asked.get("sort"))), readFilter(asked), sources);
  return Array.from(places, (at) => rows[at] as RowSummary);
}

const filters = fc.constantFrom<[string, (row: RowSummary) => boolean]>(
  ["", () => true],
  ["q=ADD", ({ text, answer }) => `${text}\n${answer}`.toLowerCase().includes("add")],
  ["q=model+failed+after", ({ reason }) => reason?.includes("model failed after") === true],
  ["q=session-1", ({ session }) => session?.startsWith("session-1") === true],
  ["q=incr&reward=0.5..", ({ tools, reward }) => tools.includes("increment") && reward !== null && reward >= 0.5],
  ["reward=0..<1", ({ reward }) => reward !== null && reward >= 0 && reward < 1],
  ["reward=1", ({ reward }) => reward === 1],
  ["task=2..4", ({ task }) => (task ?? 0) >= 2 && (task ?? 0) <= 4],
  ["task=0", ({ task }) => task === 0 || task === null],
  ["tokens=..1000", ({ tokens }) => tokens !== null && tokens <= 1_000],
  ["kind=failed", ({ outcome }) => outcome === "failed"],
  ["kind=failed/model&tool=reset", ({ kind, tools }) => kind === "model" && tools.includes("reset")],
  ["kind=scored", ({ outcome }) => outcome === "scored"],
  ["kind=stopped/max_steps", ({ stopped }) => stopped === "max_steps"],
  ["kind=nothing", () => false],
);
const keys = fc.constantFrom<[string, (row: RowSummary) => number | string | null]>(
  ["reward", ({ reward }) => reward],
  ["tokens", ({ tokens }) => tokens],
  ["task", ({ task }) => task ?? 0],
  ["prompt", ({ text }) => text || null],
  ["text", ({ answer, reason }) => reason ?? (answer || null)],
  ["time", ({ seconds }) => seconds],
);

/** The order of tasks, repeats and branches. Rows without a number come last, in file order. */
function byIndex(a: RowSummary, b: RowSummary): number {
  const last = (value: number | null): number => value ?? Infinity;
  const [one, other] = [a.branch ?? "~", b.branch ?? "~"];
  const branches = one < other ? -1 : Number(one > other);
  const repeats = a.repeat === b.repeat ? 0 : last(a.repeat) - last(b.repeat);
  return (a.task ?? 0) - (b.task ?? 0) || repeats || branches || a.row - b.row;
}

test("rows are listed by task and repeat, not by completion", () => {
  const rows = [3, 9, 1].map((repeat, row) => rowOf({ row, task: 4, repeat }));
  expect(shown([...rows, rowOf({ row: 3, task: 2, repeat: 5 })], "").map(({ repeat }) => repeat)).toEqual([5, 1, 3, 9]);
});

test("a search also shows the rows whose full text was found", () => {
  const rows = [rowOf({ row: 0, answer: "I do not know" }), rowOf({ row: 1 }), rowOf({ row: 2 })];
  expect(shown(rows, "q=do+not").map(({ row }) => row)).toEqual([0]);
  expect(shown(rows, "q=do+not", [2]).map(({ row }) => row)).toEqual([0, 2]);
});

test("a reason selects the failures that differ only in numbers", () => {
  const rows = ["refused after 3 s", "refused after 12 s", "gone"].map((reason, row) =>
    rowOf({ row, outcome: "failed", kind: "model", reason }),
  );
  const [most] = computeRunMetrics(rows).reasons;
  expect(most).toEqual({ kind: "model", group: "refused after # s", reason: "refused after 3 s", count: 2 });
  expect(shown(rows, `reason=${encodeURIComponent("refused after # s")}`).map(({ row }) => row)).toEqual([0, 1]);
});

test("the shown rows equal a naive filter and sort", () => {
  fc.assert(
    fc.property(someRows, filters, keys, fc.boolean(), (rows, [filter, fits], [column, key], isDown) => {
      const fitting = rows.filter(fits).sort(byIndex);
      const known = fitting.filter((row) => key(row) !== null);
      const sorted = known.toSorted((a, b) => {
        const [x, y] = [key(a) as number, key(b) as number];
        return (x < y ? -1 : x > y ? 1 : 0) * (isDown ? -1 : 1);
      });
      const expected = [...sorted, ...fitting.filter((row) => key(row) === null)];
      expect(shown(rows, `${filter}&sort=${isDown ? "-" : ""}${column}`)).toEqual(expected);
      expect(shown(rows, filter)).toEqual(fitting);
    }),
  );
});

test("a histogram bar's filter selects as many rows as the bar counts, also for rewards on an edge", () => {
  check(Array.from({ length: 41 }, (_, row) => rowOf({ row, reward: row / 20 })));
  fc.assert(fc.property(someRows, check));

  function check(rows: RowSummary[]): void {
    const { rewards, scored } = computeRunMetrics(rows);
    rewards.forEach((bin, at) => {
      const range = rangeText(barRange(bin, at === rewards.length - 1)) as string;
      expect(shown(rows, `reward=${encodeURIComponent(range)}`)).toHaveLength(bin.count);
    });
    expect(rewards.reduce((total, { count }) => total + count, 0)).toBe(scored);
  }
});

test("a filter by task mean selects all rows of the matching tasks", () => {
  fc.assert(
    fc.property(someRows, (rows) => {
      const good = computeRunMetrics(rows).tasks.filter(({ reward }) => reward !== null && reward >= 0.5);
      const found = shown(rows, "mean=0.5..").map(({ row }) => row);
      expect(found.toSorted((a, b) => a - b)).toEqual(good.flatMap((task) => task.rows).sort((a, b) => a - b));
    }),
  );
});

test("a range is read as it was written", () => {
  const end = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value || 0);
  fc.assert(
    fc.property(end, end, fc.boolean(), (a, b, isOpen) => {
      const [from, to] = a < b ? [a, b] : [b, a];
      for (const range of [
        { from, to, isOpen },
        { from: -Infinity, to, isOpen },
        { from, to: Infinity, isOpen },
      ]) {
        expect(readRange(rangeText(range))).toEqual(range);
      }
    }),
  );
  expect(rangeText({ from: -Infinity, to: Infinity, isOpen: false })).toBeUndefined();
  for (const text of [null, "", "..", "x", "a..b", "<"]) expect(readRange(text)).toBeUndefined();
});

test("a range without its upper bound does not overlap a range that starts there", () => {
  const [low, high] = [readRange("0..<0.5"), readRange("0.5..1")];
  if (!low || !high) throw new Error("not read");
  expect(holds(low, 0.5)).toBe(false);
  expect(holds(high, 0.5)).toBe(true);
  expect(holds(high, null)).toBe(false);
  expect(overlaps(low, high)).toBe(false);
  expect(overlaps(high, { from: 1, to: 1, isOpen: false })).toBe(true);
});

test("clicks on a heading sort ascending, descending, then in the order of tasks", () => {
  expect(nextSort(undefined, "reward")).toBe("reward");
  expect(nextSort(readSort("reward"), "reward")).toBe("-reward");
  expect(nextSort(readSort("-reward"), "reward")).toBeUndefined();
  expect(nextSort(readSort("-reward"), "task")).toBe("task");
});

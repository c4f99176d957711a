// Names of runs and rows in links.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CollectionAbout } from "../../src/rollout/collection-view.ts";
import { createRowNames, findRun, nameRuns, rowName, rowPosition } from "../../viewer/src/data/references.ts";
import { rowOf, someRows } from "./runs-rows.ts";

const about = (...files: string[]): CollectionAbout[] =>
  files.map((file, at) => ({
    run: String(at),
    file,
    name: file.replace(/^.*\/|\.jsonl$/g, ""),
    environment: null,
    model: null,
  }));

test("a link to a run finds it when the files are given in another order", () => {
  const [, second] = nameRuns(about("runs/a.jsonl", "runs/b.jsonl"));
  const swapped = nameRuns(about("runs/b.jsonl", "runs/a.jsonl"));
  expect(findRun(swapped, second?.link ?? "")?.file).toBe("runs/b.jsonl");
});

test("runs with equal names are named by their files, and one file given twice by position", () => {
  expect(nameRuns(about("x/a.jsonl", "y/a.jsonl")).map(({ link }) => link)).toEqual(["x/a.jsonl", "y/a.jsonl"]);
  expect(nameRuns(about("a.jsonl", "a.jsonl")).map(({ link }) => link)).toEqual(["0", "1"]);
});

test("a link of an earlier version, with the position of a run, still opens it", () => {
  expect(findRun(nameRuns(about("runs/a.jsonl", "runs/b.jsonl")), "1")?.name).toBe("b");
});

test("a row is named by its task and repeat, or else by its position", () => {
  expect(rowName(rowOf({ row: 281, task: 3, repeat: 2 }))).toBe("task-3-repeat-2");
  expect(rowName(rowOf({ row: 281, task: 3, repeat: 2, branch: "0.1" }))).toBe("task-3-repeat-2-branch-0.1");
  expect(rowName(rowOf({ row: 281, task: 3 }))).toBe("281");
  expect([rowPosition("281"), rowPosition("task-3-repeat-2")]).toEqual([281, undefined]);
});

test("no two rows of a run share a name", () => {
  fc.assert(
    fc.property(someRows, (rows) => {
      const nameRow = createRowNames();
      const names = rows.map((row) => nameRow(rows, row));
      expect(new Set(names).size).toBe(rows.length);
      for (const [at, name] of names.entries()) {
        expect(rowPosition(name) ?? rows.find((row) => rowName(row) === name)?.row).toBe(at);
      }
    }),
  );
});

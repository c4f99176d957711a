// A row is in a file whole or not at all, wherever the writing process was killed.
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claimOutput } from "../../src/rollout/output-lock.ts";
import { keysIn, openLines, outputPaths, triesIn, writeWhole } from "../../src/rollout/output.ts";
import { keysOf, newFolder, rowsOf } from "./folder.ts";

const rowAt = (task: number, added = {}) => ({ _ng_task_index: task, _ng_rollout_index: 0, ...added });

test("the parts of a collection have the names that other tools look for", () => {
  expect(outputPaths("runs/a.b.jsonl")).toEqual({
    rows: "runs/a.b.jsonl",
    inputs: "runs/a.b_materialized_inputs.jsonl",
    failures: "runs/a.b_failures.jsonl",
    metrics: "runs/a.b_aggregate_metrics.json",
    run: "runs/a.b_run.json",
  });
  expect(outputPaths("a").inputs).toBe("a_materialized_inputs.jsonl");
});

test("new files and folders of a collection are private to their owner; existing ones keep their mode", async () => {
  const umask = process.umask(0o022);
  try {
    const modeOf = (path: string) => statSync(path).mode & 0o777;
    const folder = join(newFolder(), "runs");
    const [rows, metrics] = [join(folder, "a.jsonl"), join(folder, "a.json")];
    for (const modes of [
      [0o700, 0o600, 0o600],
      [0o755, 0o640, 0o644],
    ]) {
      const claim = await claimOutput(rows);
      const lock = readdirSync(folder).find((name) => name.endsWith(".lock"))!;
      expect(modeOf(join(folder, lock))).toBe(0o600);
      claim.release();
      openLines(rows).close();
      await writeWhole(metrics, "{}");
      expect([folder, rows, metrics].map(modeOf)).toEqual(modes);
      chmodSync(folder, 0o755);
      chmodSync(rows, 0o640);
      chmodSync(metrics, 0o644);
    }
  } finally {
    process.umask(umask);
  }
});

test("a torn line is cut at any point, even if only its end is missing, and the next row is whole", () => {
  const file = join(newFolder(), "rows.jsonl");
  const rows = [0, 1, 2].map((task) => rowAt(task, { text: "ä\u2028" }));
  const whole = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  for (let length = 0; length <= whole.length; length++) {
    writeFileSync(file, whole.subarray(0, length));
    const lines = openLines(file);
    const left = whole.subarray(0, length).toString("latin1").split("\n").length - 1;
    expect(rowsOf(file)).toEqual(rows.slice(0, left));
    lines.write(rowAt(9));
    lines.close();
    expect(rowsOf(file)).toEqual([...rows.slice(0, left), rowAt(9)]);
  }
});

test("a torn line may be longer than the read buffer", () => {
  const file = join(newFolder(), "rows.jsonl");
  for (const length of [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 300_000]) {
    writeFileSync(file, `{"a":1}\n${"x".repeat(length)}`);
    openLines(file).close();
    expect(readFileSync(file, "utf8")).toBe('{"a":1}\n');
    writeFileSync(file, "x".repeat(length));
    openLines(file).close();
    expect(readFileSync(file, "utf8")).toBe("");
  }
});

test("a file that cannot be written is refused by its name", () => {
  const folder = newFolder();
  expect(() => openLines(folder)).toThrow(expect.objectContaining({ code: "cannot_load" }));
});

test("of two writers to one file, the second is refused and writes nothing", () => {
  const file = join(newFolder(), "rows.jsonl");
  const [first, second] = [openLines(file), openLines(file)];
  second.write(rowAt(0));
  expect(() => first.write(rowAt(0))).toThrow("another process is writing to it");
  second.write(rowAt(1));
  expect(rowsOf(file)).toEqual([rowAt(0), rowAt(1)]);
  first.close();
  second.close();
});

test("existing rows are known by task and repeat; failures also by their attempts, and whether more are left", async () => {
  const file = join(newFolder(), "failures.jsonl");
  expect(await keysIn(file)).toEqual(new Set());
  const lines = openLines(file);
  for (const task of [0, 1, 2]) lines.write(rowAt(task, { retried: true }));
  lines.write(rowAt(1));
  lines.write(rowAt(1, { retried: true }));
  lines.write(rowAt(2));
  lines.close();
  expect(await keysIn(file)).toEqual(new Set(["0 0", "1 0", "2 0"]));
  expect(Object.fromEntries(await triesIn(file))).toEqual({
    "0 0": { all: 1, open: 1 },
    "1 0": { all: 3, open: 1 },
    "2 0": { all: 2, open: 0 },
  });
  expect(keysOf(rowsOf(file))).toEqual(["0-0", "1-0", "1-0", "1-0", "2-0", "2-0"]);
});

test("a file is written whole or left unchanged, and no temporary file stays", async () => {
  const folder = newFolder();
  const file = join(folder, "metrics.json");
  await writeWhole(file, ["[", "1", "]"]);
  function* broken() {
    yield "[";
    throw new Error("no more");
  }
  await expect(writeWhole(file, broken())).rejects.toMatchObject({ code: "cannot_load" });
  expect(readFileSync(file, "utf8")).toBe("[1]");
  mkdirSync(join(folder, "taken"));
  await expect(writeWhole(join(folder, "taken"), "x")).rejects.toMatchObject({ code: "cannot_load" });
  expect(readdirSync(folder).sort()).toEqual(["metrics.json", "taken"]);
});

// A folder for the files of a test, and readers for them.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { TaskRow } from "../../src/core/rollout.ts";

/** A folder that is removed when the test ends. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-rollouts-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The rows of a file, in which every line must be valid. Empty if the file is missing. */
export function rowsOf(file: string): TaskRow[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  if (lines.pop() !== "") throw new Error(`the last line of ${file} has no end`);
  return lines.map((line) => JSON.parse(line) as TaskRow);
}

/** The rollouts of the rows, in order. */
export function keysOf(rows: TaskRow[]): string[] {
  const keys = rows.map((row) => `${String(row["_ng_task_index"])}-${String(row["_ng_rollout_index"])}`);
  return keys.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

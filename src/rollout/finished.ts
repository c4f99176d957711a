// finishedRollouts(): reads each rollout of a collection once, with its final outcome, including the failures file.
import { existsSync, statSync } from "node:fs";
import type { TaskRow } from "../core/rollout.ts";
import { assertFile } from "../io/private-files.ts";
import { createRowNumbering } from "./number-rows.ts";
import { outputPaths } from "./output.ts";
import { isFailed } from "./row-fields.ts";
import { readGoodRows, readRows, type Span, type OnBad } from "./tasks.ts";

export interface Finished {
  /** The row. If the file does not number its tasks, the row is numbered by its task's content. */
  row: TaskRow;
  failed: boolean;
  /** The row's position, in the rows file or in the failures file. */
  place: Span & { file: string };
}

/** The rollout that a row belongs to. A field is undefined if the row does not have it. */
export interface RolloutIndex {
  task: number | undefined;
  repeat: number | undefined;
}

export function rolloutIndex(row: TaskRow): RolloutIndex {
  return { task: numberIn(row["_ng_task_index"]), repeat: numberIn(row["_ng_rollout_index"]) };
}

/** Names a rollout in messages. */
export function rolloutName(row: TaskRow): string {
  const { task, repeat } = rolloutIndex(row);
  return `task ${task ?? "?"}, repeat ${repeat ?? "?"}`;
}

/**
 * Yields the rows of a file in order, then failures that no later attempt replaced. Invalid lines are passed to
 * `onBad`.
 *
 * @example
 * for await (const { row } of finishedRollouts("runs/counter.jsonl", console.error)) console.log(row["reward"]);
 */
export async function* finishedRollouts(file: string, onBad: OnBad): AsyncGenerator<Finished> {
  assertFile(file);
  const { failures } = outputPaths(file);
  const hasFailures = existsSync(failures) && statSync(failures).size > 0;
  const scored = new Set<string>();
  const number = createRowNumbering(hasFailures ? [file, failures] : [file]);
  for await (const read of readGoodRows(file, onBad)) {
    if (hasFailures) scored.add(toKey(read.row));
    yield { row: await number(read.row), failed: isFailed(read.row), place: toPlace(file, read) };
  }
  if (!hasFailures) return;
  for await (const failure of lastFailures(failures, scored, onBad)) {
    yield { ...failure, row: await number(failure.row) };
  }
}

/** Yields only final failures. Earlier attempts, and rollouts that were scored later, are skipped. */
async function* lastFailures(file: string, scored: Set<string>, onBad: OnBad): AsyncGenerator<Finished> {
  const last = new Map<string, number>();
  for await (const read of readRows(file)) if ("row" in read) last.set(toKey(read.row), read.line);
  for await (const read of readGoodRows(file, onBad)) {
    if (isLast(read.row, read.line)) yield { row: read.row, failed: true, place: toPlace(file, read) };
  }

  function isLast(row: TaskRow, line: number): boolean {
    const key = toKey(row);
    // A row without numbers cannot replace another row.
    const isReplaced = rolloutIndex(row).task !== undefined && (last.get(key) !== line || scored.has(key));
    return row["retried"] !== true && !isReplaced;
  }
}

const toPlace = (file: string, { at, bytes }: Span): Finished["place"] => ({ file, at, bytes });

function toKey(row: TaskRow): string {
  const { task, repeat } = rolloutIndex(row);
  return `${task} ${repeat}`;
}

const numberIn = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

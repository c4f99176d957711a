// The rollouts of a collection's file: each once, as it ended, with the failures that lie beside it.
import { existsSync, statSync } from "node:fs";
import { HoldfastError } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import { pathsOf } from "./output.ts";
import { readRows, type BadRow, type Span } from "./tasks.ts";

export interface Finished {
  row: TaskRow;
  failed: boolean;
  /** Where it is: in the file, or in that of its failures. */
  place: Span & { file: string };
}

/** Which rollout a row is of; undefined where it does not say. */
export interface RolloutIndex {
  task: number | undefined;
  repeat: number | undefined;
}

export function indexOf(row: TaskRow): RolloutIndex {
  return { task: numberIn(row["_ng_task_index"]), repeat: numberIn(row["_ng_rollout_index"]) };
}

/** A rollout in words. */
export function rolloutName(row: TaskRow): string {
  const { task, repeat } = indexOf(row);
  return `task ${task ?? "?"}, repeat ${repeat ?? "?"}`;
}

/**
 * The rows of a file, in their order, and then those of its failures that no later attempt has replaced. What is no row is
 * handed to `onBad`.
 */
export async function* finishedRollouts(
  file: string,
  onBad: (bad: BadRow, file: string) => void,
): AsyncGenerator<Finished, void, undefined> {
  assertFile(file);
  const { failures } = pathsOf(file);
  const hasFailures = existsSync(failures) && statSync(failures).size > 0;
  const scored = new Set<string>();
  for await (const read of readRows(file)) {
    if (!("row" in read)) {
      onBad(read, file);
      continue;
    }
    if (hasFailures) scored.add(keyOf(read.row));
    yield { row: read.row, failed: isFailed(read.row), place: placeOf(file, read) };
  }
  if (hasFailures) yield* lastFailures(failures, scored, onBad);
}

/** What failed and was played again later has failed no more, or fails once. */
async function* lastFailures(
  file: string,
  scored: Set<string>,
  onBad: (bad: BadRow, file: string) => void,
): AsyncGenerator<Finished, void, undefined> {
  const last = new Map<string, number>();
  for await (const read of readRows(file)) if ("row" in read) last.set(keyOf(read.row), read.line);
  for await (const read of readRows(file)) {
    if (!("row" in read)) onBad(read, file);
    else if (isLast(read.row, read.line)) yield { row: read.row, failed: true, place: placeOf(file, read) };
  }

  function isLast(row: TaskRow, line: number): boolean {
    const key = keyOf(row);
    return row["retried"] !== true && last.get(key) === line && !scored.has(key);
  }
}

/** Refuses what cannot be read as a file. */
export function assertFile(file: string): void {
  if (!existsSync(file)) throw new HoldfastError("cannot_load", `there is no file ${file}`);
  if (statSync(file).isDirectory()) throw new HoldfastError("cannot_load", `${file} is a folder, not a file of rows`);
}

function isFailed({ failure_kind: kind }: TaskRow): boolean {
  return typeof kind === "string" && kind !== "";
}

const placeOf = (file: string, { at, bytes }: Span): Finished["place"] => ({ file, at, bytes });

function keyOf(row: TaskRow): string {
  const { task, repeat } = indexOf(row);
  return `${task} ${repeat}`;
}

const numberIn = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

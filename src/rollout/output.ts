// The files of a collection: their paths, atomic writes, and their existing content.
import { closeSync, existsSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { open, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { cannotLoad, messageOf, type HoldfastError } from "../core/errors.ts";
import type { TaskRow } from "../core/rollout.ts";
import { fileToReplace, keepMode, makeFolder, privateFile } from "../io/private-files.ts";
import { readRows } from "./tasks.ts";
import { rowNodeKey } from "./tree.ts";

export function outputPaths(out: string) {
  const stem = join(dirname(out), basename(out, extname(out)));
  return {
    rows: out,
    inputs: `${stem}_materialized_inputs.jsonl`,
    failures: `${stem}_failures.jsonl`,
    metrics: `${stem}_aggregate_metrics.json`,
    /** The file with the collection's settings. */
    run: `${stem}_run.json`,
  };
}

/** Where a collection stores its rows, and finds them again when it is resumed. */
export interface CollectionOutput {
  /** Reads the output of an interrupted collection. */
  existing(): Promise<ExistingRows>;
  /** Stores a prepared row. */
  input(row: TaskRow): void;
  /** Stores a scored row. */
  scored(row: TaskRow): void | Promise<void>;
  /** Stores a failed row. With the field `retried`, the rollout is run again. */
  failed(row: TaskRow): void | Promise<void>;
  close(): void;
}

export interface ExistingRows {
  /** Keys of the nodes with an outcome. */
  done: Set<string>;
  /** Keys of the rollouts with a prepared row. */
  known: Set<string>;
  /** Failed attempts by node key. */
  tries: Map<string, Tries>;
  /** Number of scored rows. */
  scored: number;
}

/** Opens a collection's files. Opening removes lines that were only partly written. */
export function fileOutput(out: string): CollectionOutput {
  const paths = outputPaths(out);
  const [rows, inputs, failures] = [openLines(paths.rows), openLines(paths.inputs), openLines(paths.failures)];
  return {
    async existing() {
      const done = await keysIn(paths.rows, rowNodeKey);
      const known = await keysIn(paths.inputs);
      return { done, known, tries: await triesIn(paths.failures, rowNodeKey), scored: done.size };
    },
    input: inputs.write,
    scored: rows.write,
    failed: failures.write,
    close() {
      for (const lines of [rows, inputs, failures]) lines.close();
    },
  };
}

/** A file to append rows to. */
export interface Lines {
  write(row: TaskRow): void;
  close(): void;
}

/**
 * Opens a file for appending and removes the last line if a killed process left it unfinished. If two processes write
 * to one file, the slower process is refused, because each would duplicate the other's rows.
 */
export function openLines(file: string): Lines {
  try {
    makeFolder(dirname(file));
    const handle = openSync(file, "a+", privateFile);
    cutTorn(handle);
    return linesOn(handle, file);
  } catch (cause) {
    throw cannotWrite(file, cause);
  }
}

function linesOn(handle: number, file: string): Lines {
  let { size } = fstatSync(handle);
  return {
    write(row) {
      const bytes = Buffer.from(`${JSON.stringify(row)}\n`);
      if (fstatSync(handle).size !== size) throw cannotWrite(file, new Error("another process is writing to it"));
      try {
        // The write is synchronous, so that lines from this process do not mix.
        for (let at = 0; at < bytes.length;) at += writeSync(handle, bytes, at);
      } catch (cause) {
        // A full disk may have stored part of the row. The next row must not be appended to that part.
        ftruncateSync(handle, size);
        throw cannotWrite(file, cause);
      }
      size += bytes.length;
    },
    close() {
      fsyncSync(handle);
      closeSync(handle);
    },
  };
}

export const cannotWrite = (file: string, cause: unknown): HoldfastError =>
  cannotLoad(`${file} cannot be written: ${messageOf(cause)}`, cause);

const newline = 10;
const chunk = 64 * 1024;

function cutTorn(handle: number): void {
  const { size } = fstatSync(handle);
  const buffer = Buffer.alloc(chunk);
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - chunk);
    readSync(handle, buffer, 0, end - start, start);
    const at = buffer.subarray(0, end - start).lastIndexOf(newline);
    if (at >= 0) {
      if (start + at + 1 < size) ftruncateSync(handle, start + at + 1);
      return;
    }
    end = start;
  }
  if (size > 0) ftruncateSync(handle, 0);
}

export async function keysIn(file: string, nameOf = rolloutKey): Promise<Set<string>> {
  const keys = new Set<string>();
  for await (const row of rowsIn(file)) keys.add(nameOf(row));
  return keys;
}

/** A rollout's failures: in total, and within the current round of attempts. */
export interface Tries {
  all: number;
  open: number;
}

/** Counts the failures per rollout in a failures file. */
export async function triesIn(file: string, nameOf = rolloutKey): Promise<Map<string, Tries>> {
  const tries = new Map<string, Tries>();
  for await (const row of rowsIn(file)) {
    const { all = 0, open: before = 0 } = tries.get(nameOf(row)) ?? {};
    tries.set(nameOf(row), { all: all + 1, open: row["retried"] === true ? before + 1 : 0 });
  }
  return tries;
}

async function* rowsIn(file: string): AsyncGenerator<TaskRow> {
  if (!existsSync(file)) return;
  for await (const read of readRows(file)) if ("row" in read) yield read.row;
}

export const rolloutKey = ({ _ng_task_index: task, _ng_rollout_index: repeat }: TaskRow): string =>
  `${Number(task)} ${Number(repeat)}`;

/** Replaces a file completely, or leaves it unchanged. */
export async function writeWhole(file: string, text: string | Iterable<string>): Promise<void> {
  let beside: string | undefined;
  try {
    makeFolder(dirname(file));
    const replaced = fileToReplace(file);
    if (replaced === undefined) return await writeFile(file, text);
    beside = `${replaced}.${process.pid}.tmp`;
    const handle = await open(beside, "w", privateFile);
    try {
      await writeFile(handle, text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    keepMode(replaced, beside);
    await rename(beside, replaced);
  } catch (cause) {
    if (beside) await rm(beside, { force: true });
    throw cannotWrite(file, cause);
  }
}

/** Returns the default store for a collection's sessions. */
export function storeFileFor(file: string): string {
  return `${file.replace(/\.jsonl$/, "")}.db`;
}

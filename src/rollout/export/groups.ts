// rowsByTask(): groups the rows of a file by task. Rows are stored in the order they ended; only their positions stay
// in memory.
import { createReadStream } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import type { TaskRow } from "../../core/rollout.ts";
import { assertFile, rolloutIndex } from "../finished.ts";
import { readLine, type BadRow } from "../tasks.ts";

export interface RowsOfTask {
  task: number;
  /** Sorted by repeat. */
  rows: TaskRow[];
}

/** Position of a row, in bytes. */
interface Place {
  repeat: number;
  from: number;
  length: number;
}

export async function* rowsByTask(
  file: string,
  onBad: (bad: BadRow, file: string) => void,
): AsyncGenerator<RowsOfTask, void, undefined> {
  assertFile(file);
  const places = await placesIn(file, onBad);
  const handle = await open(file);
  try {
    for (const task of [...places.keys()].sort((a, b) => a - b)) {
      const ordered = (places.get(task) ?? []).sort((a, b) => a.repeat - b.repeat);
      const rows: TaskRow[] = [];
      for (const place of ordered) rows.push(await rowAt(handle, place));
      yield { task, rows };
    }
  } finally {
    await handle.close();
  }
}

async function placesIn(file: string, onBad: (bad: BadRow, file: string) => void): Promise<Map<number, Place[]>> {
  const places = new Map<number, Place[]>();
  for await (const { line, bytes, from } of linesIn(file)) {
    const text = decodeLine(bytes);
    if (text.trim() === "") continue;
    const read = readLine(text, line);
    if (!("row" in read)) {
      onBad(read, file);
      continue;
    }
    const { task = 0, repeat = 0 } = rolloutIndex(read.row);
    const place = { repeat, from, length: bytes.length };
    const known = places.get(task);
    if (known) known.push(place);
    else places.set(task, [place]);
  }
  return places;
}

const newline = 10;

async function* linesIn(file: string): AsyncGenerator<{ line: number; bytes: Buffer; from: number }, void, undefined> {
  let [line, from] = [1, 0];
  let parts: Buffer[] = [];
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      const bytes = Buffer.concat([...parts, chunk.subarray(start, end)]);
      parts = [];
      yield { line: line++, bytes, from };
      from += bytes.length + 1;
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) yield { line, bytes: Buffer.concat(parts), from };
}

/** Removes a byte order mark. */
const decodeLine = (bytes: Buffer): string => bytes.toString("utf8").replace(/^\uFEFF/, "");

async function rowAt(handle: FileHandle, { from, length }: Place): Promise<TaskRow> {
  const buffer = Buffer.alloc(length);
  for (let at = 0; at < length;) {
    const { bytesRead } = await handle.read(buffer, at, length - at, from + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return JSON.parse(decodeLine(buffer)) as TaskRow;
}

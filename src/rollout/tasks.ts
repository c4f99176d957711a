// Reads tasks from JSON lines one by one, so a file may be larger than memory.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { canonicalText } from "../core/digest.ts";
import { cannotLoad, HoldfastError, messageOf } from "../core/errors.ts";
import { copyJson, isObject, type Json } from "../core/json.ts";
import { pickTask, type TaskRow } from "../core/rollout.ts";
import { assertNoFolder } from "../io/private-files.ts";

/** A line and its number in the file, from 1. */
interface Line {
  line: number;
  text: string;
}

export interface ReadRow extends Line {
  row: TaskRow;
}

/** A line that is not a valid row. */
export interface BadRow extends Line {
  problem: string;
}

/** Position of a line in its file, in bytes. */
export interface Span {
  at: number;
  bytes: number;
}

/** Maximum number of bytes in a line: half of the maximum length of a string. */
const mostBytes = 256 * 1024 * 1024;

/** Yields the rows of a file in order. Invalid and overlong lines are reported and do not end the reading. */
export async function* readRows(file: string, longest = mostBytes): AsyncGenerator<(ReadRow | BadRow) & Span> {
  for await (const read of readLines(file, longest)) {
    yield "problem" in read ? read : Object.assign(readLine(read.text, read.line), { at: read.at, bytes: read.bytes });
  }
}

/** Called with a line that is not a valid row, and with its file. */
export type OnBad = (bad: BadRow, file: string) => void;

/** Yields the valid rows of a file, in order. */
export async function* readGoodRows(file: string, onBad: OnBad): AsyncGenerator<ReadRow & Span> {
  for await (const read of readRows(file)) {
    if ("row" in read) yield read;
    else onBad(read, file);
  }
}

/** Reads all tasks of a file. Rejects if a line is invalid, or if there are no tasks. */
export async function readTasks(file: string): Promise<Json[]> {
  const tasks: Json[] = [];
  for await (const read of readRows(file)) {
    if ("problem" in read) throw cannotLoad(`line ${read.line} of ${file} is invalid: ${read.problem}`);
    tasks.push(read.row as Json);
  }
  if (tasks.length === 0)
    throw new HoldfastError("invalid_task", `${file} has no tasks; write one JSON object per line`);
  return tasks;
}

/** Counts the lines that are not blank, up to a limit. */
export async function countLines(file: string, limit = Infinity): Promise<number> {
  let count = 0;
  for await (const _ of readLines(file, mostBytes)) if (++count >= limit) break;
  return count;
}

const newline = 10;

/** Yields the lines that are not blank. readline is unsuitable: it also splits at U+2028, which occurs inside rows. */
async function* readLines(file: string, longest: number): AsyncGenerator<(Line | BadRow) & Span> {
  let [line, next] = [0, 0];
  /** The start of an unfinished line, unless it is too long to keep. */
  let rest: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer): void => {
    length += part.length;
    if (length > longest) rest = [];
    else rest.push(part);
  };
  const whole = (): (Line | BadRow) & Span => {
    line++;
    const span = { at: next, bytes: length };
    next += length + 1;
    const isTooLong = length > longest;
    const text = isTooLong ? "" : (rest.length === 1 ? (rest[0] as Buffer) : Buffer.concat(rest)).toString("utf8");
    [rest, length] = [[], 0];
    // The line number replaces the text, so that two overlong lines do not count as equal tasks.
    if (isTooLong) return { line, text: `line ${line}`, problem: `it is longer than ${sizeText(longest)}`, ...span };
    return { ...span, line, text: line === 1 && text.startsWith("\uFEFF") ? text.slice(1) : text };
  };
  for await (const chunk of readChunks(file)) {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      add(chunk.subarray(from, at));
      from = at + 1;
      const read = whole();
      if (read.text.trim() !== "") yield read;
    }
    if (from < chunk.length) add(chunk.subarray(from));
  }
  const read = whole();
  if (read.text.trim() !== "") yield read;
}

const sizeText = (bytes: number): string =>
  bytes < 1024 * 1024 ? `${bytes} bytes` : `${Math.floor(bytes / 1024 / 1024)} MB`;

async function* readChunks(file: string): AsyncGenerator<Buffer> {
  assertNoFolder(file);
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Buffer;
  } catch (cause) {
    throw cannotLoad(`cannot read ${file}: ${messageOf(cause)}`, cause);
  }
}

/** Reads the row at a position of an open file; undefined if the file has changed. */
export async function readRowAt(handle: FileHandle, { at, bytes }: Span): Promise<TaskRow | undefined> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, at);
  const read = bytesRead < bytes ? undefined : readLine(buffer.toString("utf8").replace(/^\uFEFF/, ""), 0);
  return read && "row" in read ? read.row : undefined;
}

export function readLine(text: string, line: number): ReadRow | BadRow {
  let row: unknown;
  try {
    row = JSON.parse(text);
  } catch (thrown) {
    return { line, text, problem: `it is not JSON: ${messageOf(thrown)}` };
  }
  if (!isObject(row)) return { line, text, problem: "it is not a JSON object" };
  try {
    // Copies the row, because parsed JSON may be nested too deeply to be written again.
    return { line, text, row: copyJson(row, "row") as TaskRow };
  } catch (thrown) {
    return { line, text, problem: messageOf(thrown) };
  }
}

export type Numbered = (ReadRow | BadRow) & { task: number };

/**
 * Numbers tasks by `_ng_task_index`, otherwise in file order, with one number for equal lines. Invalid lines get
 * numbers too, so that the other numbers do not change when a line is corrected. A row with another task's number is
 * invalid, because its rollouts would count as repeats of that task.
 */
export function createNumbering(): (read: ReadRow | BadRow) => Numbered {
  // Stores digests instead of lines, because there may be many long lines.
  const known = new Map<string, number>();
  const owners = new Map<number, string>();
  let next = 0;
  return (read) => {
    const given = "row" in read ? read.row["_ng_task_index"] : undefined;
    if ("row" in read && typeof given === "number" && Number.isInteger(given) && given >= 0 && given < 2 ** 31) {
      next = Math.max(next, given + 1);
      const digest = taskDigest(read.row);
      const owner = owners.get(given) ?? digest;
      owners.set(given, owner);
      if (owner === digest) return { ...read, task: given };
      const problem = `an earlier task has the same \`_ng_task_index\` ${given}`;
      return { line: read.line, text: read.text, problem, task: given };
    }
    const digest = digestText(read.text);
    let task = known.get(digest);
    if (task === undefined) {
      task = next++;
      known.set(digest, task);
      owners.set(task, digest);
    }
    return { ...read, task };
  };
}

/**
 * Digests a row's request, independent of settings, agent and numbers. For rows from an earlier collection it covers
 * only the model's input, because their task fields cannot be distinguished from results.
 */
export function taskDigest(row: TaskRow): string {
  const { input = null, instructions = null } = Object(row["responses_create_params"]) as TaskRow;
  const task = "response" in row ? null : pickTask(row);
  return digestText(canonicalText([task, input, instructions]));
}

const digestText = (text: string): string => createHash("sha256").update(text).digest("base64url");

/** Fills `{field}` in a template with the fields of a row; `{{` and `}}` are literal braces. */
export function renderPrompt(template: string, row: TaskRow): string {
  return template.replaceAll(/\{\{|\}\}|\{([A-Za-z_][\w.]*)\}/g, (found, path: string | undefined) => {
    if (path === undefined) return found[0] as string;
    const value = path.split(".").reduce<Json | undefined>((at, key) => readField(at, key), row);
    if (value === undefined)
      throw new HoldfastError("invalid_task", `the prompt uses {${path}}, but the row has no such field`);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function readField(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

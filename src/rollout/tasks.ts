// Tasks: rows of JSON lines, read one at a time, so that a file may be larger than the memory.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { HoldfastError, messageOf } from "../core/errors.ts";
import { copyJson, type Json } from "../core/json.ts";
import type { TaskRow } from "../core/rollout.ts";

/** A line with its place in the file, from 1. */
interface Line {
  line: number;
  text: string;
}

export interface ReadRow extends Line {
  row: TaskRow;
}

/** A line that is no row. */
export interface BadRow extends Line {
  problem: string;
}

/** The rows of a file, in order. What is no row is told, and does not end the reading. */
export async function* readRows(file: string): AsyncGenerator<ReadRow | BadRow, void, undefined> {
  for await (const { text, line } of readLines(file)) yield readLine(text, line);
}

/** How many lines of a file could be rows, up to so many. */
export async function countLines(file: string, limit = Infinity): Promise<number> {
  let count = 0;
  for await (const _ of readLines(file)) if (++count >= limit) break;
  return count;
}

const newline = 10;

/** The lines of a file that are not blank. Not by readline: that ends lines at U+2028 too, which texts of rows have in them. */
async function* readLines(file: string): AsyncGenerator<Line, void, undefined> {
  let line = 0;
  /** The beginning of a line that goes on. */
  let rest: Buffer[] = [];
  const whole = (last: Buffer): string => {
    const text = (rest.length === 0 ? last : Buffer.concat([...rest, last])).toString("utf8");
    rest = [];
    return ++line === 1 && text.startsWith("\uFEFF") ? text.slice(1) : text;
  };
  for await (const chunk of chunksOf(file)) {
    let from = 0;
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      const text = whole(chunk.subarray(from, at));
      from = at + 1;
      if (text.trim() !== "") yield { line, text };
    }
    if (from < chunk.length) rest.push(chunk.subarray(from));
  }
  const text = whole(Buffer.alloc(0));
  if (text.trim() !== "") yield { line, text };
}

async function* chunksOf(file: string): AsyncGenerator<Buffer, void, undefined> {
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Buffer;
  } catch (cause) {
    throw new HoldfastError("cannot_load", `${file} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** What a line is. */
export function readLine(text: string, line: number): ReadRow | BadRow {
  let row: unknown;
  try {
    row = JSON.parse(text);
  } catch (thrown) {
    return { line, text, problem: `it is not JSON: ${messageOf(thrown)}` };
  }
  if (typeof row !== "object" || row === null || Array.isArray(row)) {
    return { line, text, problem: "it is not a JSON object" };
  }
  try {
    // What can be read may be nested too deeply to be written again.
    return { line, text, row: copyJson(row, "row") as TaskRow };
  } catch (thrown) {
    return { line, text, problem: messageOf(thrown) };
  }
}

/**
 * Numbers tasks: by `_ng_task_index` where a row has one; else in the order of the file, the same for lines that are the
 * same. Lines that are no rows have numbers too, so that the others keep theirs when one of them is put right.
 */
export function createNumbering(): (read: ReadRow | BadRow) => number {
  // Digests, as lines may be long and many.
  const known = new Map<string, number>();
  let next = 0;
  return (read) => {
    const given = "row" in read ? read.row["_ng_task_index"] : undefined;
    if (typeof given === "number" && Number.isInteger(given) && given >= 0 && given < 2 ** 31) {
      next = Math.max(next, given + 1);
      return given;
    }
    const digest = createHash("sha256").update(read.text).digest("base64url");
    let index = known.get(digest);
    if (index === undefined) {
      index = next++;
      known.set(digest, index);
    }
    return index;
  };
}

/** Fills `{field}` of a template with the fields of a row; `{{` and `}}` are braces. */
export function renderPrompt(template: string, row: TaskRow): string {
  return template.replaceAll(/\{\{|\}\}|\{([A-Za-z_][\w.]*)\}/g, (found, path: string | undefined) => {
    if (path === undefined) return found[0] as string;
    const value = path.split(".").reduce<Json | undefined>((at, key) => fieldOf(at, key), row);
    if (value === undefined) throw new HoldfastError("invalid_task", `the prompt names {${path}}, which the row lacks`);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function fieldOf(value: Json | undefined, key: string): Json | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

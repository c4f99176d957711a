// Reads and writes a recording file: one JSON line per answer. Several processes may append to it concurrently.
import { createReadStream } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { boundary, HoldfastError, isHoldfastError } from "../../core/errors.ts";
import { parseJson, type Json } from "../../core/json.ts";
import type { ModelResponse } from "../../core/model.ts";
import { privateFile } from "../../io/private-files.ts";

export interface Entry {
  /** The digest of the request. */
  digest: string;
  /** The name of the model that gave the answer. */
  model: string;
  request: Json;
  response: ModelResponse;
}

// The next writer ends a line that a killed process left unfinished with this control character. JSON escapes it.
const cut = "\u0018";
const lineFeed = 10;

/** Returns the entries in file order. Skips unfinished lines left by killed processes. */
export async function* readEntries(file: string): AsyncGenerator<Entry> {
  let number = 0;
  try {
    for await (const { text, whole } of readLines(file)) {
      number++;
      const isCut = !whole || text.endsWith(cut);
      const entry = parse(isCut && whole ? text.slice(0, -cut.length) : text);
      if (entry) yield entry;
      else if (!isCut && text.trim() !== "") throw corrupt(file, number);
    }
  } catch (cause) {
    throw isHoldfastError(cause) ? cause : unreadable(file, cause);
  }
}

// node:readline is unsuitable, because it also ends a line at U+2028, which JSON does not escape.
async function* readLines(file: string): AsyncGenerator<{ text: string; whole: boolean }> {
  let pending: Buffer[] = [];
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, start)) {
      pending.push(chunk.subarray(start, end));
      yield { text: Buffer.concat(pending).toString(), whole: true };
      pending = [];
      start = end + 1;
    }
    if (start < chunk.length) pending.push(chunk.subarray(start));
  }
  if (pending.length > 0) yield { text: Buffer.concat(pending).toString(), whole: false };
}

function parse(text: string): Entry | undefined {
  const entry = parseJson(text) as Partial<Entry> | null | undefined;
  return typeof entry?.digest === "string" && Array.isArray(entry.response?.output) ? (entry as Entry) : undefined;
}

function corrupt(file: string, line: number): HoldfastError {
  return new HoldfastError(
    "store_corrupt",
    `line ${line} of ${file} is not a recorded entry, which has the form { digest, model, request, response }; fix or remove that line`,
    { detail: { file, line } },
  );
}

function unreadable(file: string, cause: unknown): HoldfastError {
  const missing = (cause as { code?: unknown }).code === "ENOENT";
  const why = missing ? "the file does not exist; pass a model to record one" : (cause as Error).message;
  return new HoldfastError("invalid_option", `cannot read the recording ${file}: ${why}`, { cause });
}

/** Checks that entries can be appended, before a model is asked and costs money. */
export async function prepare(file: string): Promise<void> {
  const handle = await boundary("invalid_option", `opening the recording ${file}`, () => open(file, "a", privateFile));
  await handle.close();
}

/** Appends one entry in a single write, so that no other writer's line gets into it. */
export async function appendEntry(file: string, entry: Entry): Promise<void> {
  await boundary("store_failed", `writing to the recording ${file}`, async () => {
    const handle = await open(file, "a+", privateFile);
    try {
      const line = `${JSON.stringify(entry)}\n`;
      const bytes = Buffer.from((await endsWhole(handle)) ? line : `${cut}\n${line}`);
      const { bytesWritten } = await handle.write(bytes);
      if (bytesWritten < bytes.length) throw new Error("the disk is full: only part of the line was written");
    } finally {
      await handle.close();
    }
  });
}

// Checked for every entry, because another process may have been killed since the last entry. If another process is
// still writing, its line is complete before ours is written. Then the mark is alone on a line, and readers skip it.
async function endsWhole(handle: FileHandle): Promise<boolean> {
  const { size } = await handle.stat();
  if (size === 0) return true;
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] === lineFeed;
}

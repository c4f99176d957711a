// Writes lines to standard output or to a file. A file is written completely or not at all.
import { once } from "node:events";
import { createWriteStream, existsSync, type WriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { finished } from "node:stream/promises";
import { invalidOption } from "../core/errors.ts";
import { keepMode, makeFolder, privateFile } from "../io/private-files.ts";
import { cannotWrite } from "./output.ts";

export interface LineOutput {
  write(line: string): Promise<void>;
  /** Renames the temporary file to its final name. */
  done(): Promise<void>;
  /** Removes an unfinished file. */
  abandon(): Promise<void>;
}

/** Opens a file, or by default standard output. Writes wait for the reader. */
export function openOutput(file: string | undefined): LineOutput {
  return file === undefined ? toStream(process.stdout) : toFile(file);
}

/** Writes all of these files, or none of them. */
export async function writeOutputs(
  files: (string | undefined)[],
  write: (...outputs: LineOutput[]) => Promise<void>,
): Promise<void> {
  const outputs = files.map(openOutput);
  try {
    await write(...outputs);
    for (const output of outputs) await output.done();
  } finally {
    for (const output of outputs) await output.abandon();
  }
}

/** Refuses to overwrite an existing file without `force`, and the input file in any case. */
export function assertFree(files: (string | undefined)[], input: string, { force = false }): void {
  for (const file of files) {
    if (file === undefined) continue;
    if (resolve(file) === resolve(input)) throw invalidOption(`${file} is the input file; choose another --out`);
    if (existsSync(file) && !force)
      throw invalidOption(`${file} already exists; choose another --out, or overwrite it with --force`);
  }
}

function toStream(stream: NodeJS.WritableStream): LineOutput {
  /** All writers share one listener, because Node would report many listeners as a leak. */
  let drained: Promise<unknown> | undefined;
  return {
    async write(line) {
      if (!stream.write(`${line}\n`)) drained ??= once(stream, "drain").finally(() => (drained = undefined));
      await drained;
    },
    done: () => Promise.resolve(),
    abandon: () => Promise.resolve(),
  };
}

function toFile(file: string): LineOutput {
  const beside = `${file}.${process.pid}.tmp`;
  let stream: WriteStream;
  try {
    makeFolder(dirname(file));
    stream = createWriteStream(beside, { flush: true, mode: privateFile });
  } catch (cause) {
    throw cannotWrite(file, cause);
  }
  // A failure is reported by the next write.
  const failed = new Promise<never>((_, reject) => stream.once("error", (cause) => reject(cannotWrite(file, cause))));
  failed.catch(() => undefined);
  const lines = toStream(stream);
  let isOver = false;
  return {
    write: (line) => Promise.race([lines.write(line), failed]),
    async done() {
      stream.end();
      await Promise.race([finished(stream), failed]);
      try {
        keepMode(file, beside);
        await rename(beside, file);
      } catch (cause) {
        throw cannotWrite(file, cause);
      }
      isOver = true;
    },
    async abandon() {
      if (isOver) return;
      stream.destroy();
      await rm(beside, { force: true });
    },
  };
}

// Writes lines to standard output, a pipe or a file. A file is written completely or not at all.
import { once } from "node:events";
import { createWriteStream, existsSync, realpathSync, type WriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { finished } from "node:stream/promises";
import { invalidOption } from "../core/errors.ts";
import { fileToReplace, keepMode, makeFolder, privateFile } from "../io/private-files.ts";
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
    const replaced = file && fileToReplace(file);
    if (!replaced || !existsSync(replaced)) continue;
    if (existsSync(input) && replaced === realpathSync(input))
      throw invalidOption(`${file} is the input file; choose another --out`);
    if (!force) throw invalidOption(`${file} already exists; choose another --out, or overwrite it with --force`);
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
  let [replaced, beside]: (string | undefined)[] = [];
  let stream: WriteStream;
  try {
    makeFolder(dirname(file));
    replaced = fileToReplace(file);
    beside = replaced && `${replaced}.${process.pid}.tmp`;
    stream = createWriteStream(beside ?? file, { flush: beside !== undefined, mode: privateFile });
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
        if (replaced && beside) {
          keepMode(replaced, beside);
          await rename(beside, replaced);
        }
      } catch (cause) {
        throw cannotWrite(file, cause);
      }
      isOver = true;
    },
    async abandon() {
      if (isOver) return;
      stream.destroy();
      if (beside) await rm(beside, { force: true });
    },
  };
}

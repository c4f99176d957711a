// Writes lines of text to a file, completely or not at all, or to the output.
import { once } from "node:events";
import { createWriteStream, existsSync, type WriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { finished } from "node:stream/promises";
import { invalidOption } from "../core/errors.ts";
import { keepMode, makeFolder, privateFile } from "../io/private-files.ts";
import { cannotWrite } from "../rollout/output.ts";

export interface LineOutput {
  write(line: string): Promise<void>;
  /** Makes the file appear under its name. */
  done(): Promise<void>;
  /** Removes a file that is not done. */
  abandon(): Promise<void>;
}

/** Opens a file, or by default the output of the process. Writes wait for the reader. */
export function openOutput(file: string | undefined): LineOutput {
  return file === undefined ? toStream(process.stdout) : toFile(file);
}

/** Refuses to overwrite an existing file without `force`, and the input file in any case. */
export function assertFree(file: string, { force, input }: { force: boolean; input: string }): void {
  if (resolve(file) === resolve(input)) throw invalidOption(`${file} is the input; choose another --out`);
  if (existsSync(file) && !force) throw invalidOption(`${file} exists already; choose another --out, or use --force`);
}

function toStream(stream: NodeJS.WritableStream): LineOutput {
  /** Shared by all writers: a listener for each would be reported as a leak. */
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
  // The next write reports a failure.
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

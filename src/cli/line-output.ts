// Lines of text that go to a file, whole or not at all, or to the output.
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, type WriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { finished } from "node:stream/promises";
import { HoldfastError, invalidOption, messageOf } from "../core/errors.ts";

export interface LineOutput {
  write(line: string): Promise<void>;
  /** What was written is there from now on. */
  done(): Promise<void>;
  /** Leaves no trace of a file that was not done. */
  abandon(): Promise<void>;
}

/** Without a file, the output of the process. It is written no faster than it is read. */
export function openOutput(file: string | undefined): LineOutput {
  return file === undefined ? toStream(process.stdout) : toFile(file);
}

/** Refuses to write over what is there, and over what is read from whatever is asked for. */
export function assertFree(file: string, { force, input }: { force: boolean; input: string }): void {
  if (resolve(file) === resolve(input)) throw invalidOption(`${file} is what is read; choose another --out`);
  if (existsSync(file) && !force) throw invalidOption(`${file} is there already; choose another --out, or --force`);
}

function toStream(stream: NodeJS.WritableStream): LineOutput {
  return {
    async write(line) {
      if (!stream.write(`${line}\n`)) await once(stream, "drain");
    },
    done: () => Promise.resolve(),
    abandon: () => Promise.resolve(),
  };
}

function toFile(file: string): LineOutput {
  const beside = `${file}.${process.pid}.tmp`;
  const cannot = (cause: unknown): HoldfastError =>
    new HoldfastError("cannot_load", `${file} cannot be written: ${messageOf(cause)}`, { cause });
  let stream: WriteStream;
  try {
    mkdirSync(dirname(file), { recursive: true });
    stream = createWriteStream(beside, { flush: true });
  } catch (cause) {
    throw cannot(cause);
  }
  // Told to whoever writes next.
  const failed = new Promise<never>((_, reject) => stream.once("error", (cause) => reject(cannot(cause))));
  failed.catch(() => undefined);
  const lines = toStream(stream);
  let isOver = false;
  return {
    write: (line) => Promise.race([lines.write(line), failed]),
    async done() {
      stream.end();
      await Promise.race([finished(stream), failed]);
      await rename(beside, file).catch((cause: unknown) => {
        throw cannot(cause);
      });
      isOver = true;
    },
    async abandon() {
      if (isOver) return;
      stream.destroy();
      await rm(beside, { force: true });
    },
  };
}

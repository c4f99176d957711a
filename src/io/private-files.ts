// Modes of new files, which only their owner may read because they hold token keys and users' texts, and their paths.
import { chmodSync, existsSync, lstatSync, mkdirSync, readlinkSync, realpathSync, statSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";
import { cannotLoad, type HoldfastError } from "../core/errors.ts";

export const privateFile = 0o600;
const privateFolder = 0o700;

/** Creates a folder and its parents if they are missing. Existing folders keep their mode. */
export function makeFolder(folder: string): void {
  if (statIfAny(folder)?.isFile()) throw notFolder(folder);
  mkdirSync(folder, { recursive: true, mode: privateFolder });
}

/**
 * Returns the file that a new version replaces: the target of a link, not the link. Undefined for a pipe or a device,
 * which is written to and never replaced. Refuses a folder.
 */
export function fileToReplace(path: string): string | undefined {
  assertNoFolder(path);
  const found = statIfAny(path);
  if (found) return found.isFile() ? realpathSync(path) : undefined;
  const isLink = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return isLink ? fileToReplace(resolve(realpathSync(dirname(path)), readlinkSync(path))) : path;
}

/** Copies the mode of a file to the file that replaces it. */
export function keepMode(from: string, to: string): void {
  const before = statSync(from, { throwIfNoEntry: false });
  if (before !== undefined) chmodSync(to, before.mode & 0o777);
}

/** Refuses a path that is missing or a folder. */
export function assertFile(file: string): void {
  if (!existsSync(file)) throw cannotLoad(`the file ${file} does not exist`);
  assertNoFolder(file);
}

export function assertNoFolder(file: string): void {
  if (statIfAny(file)?.isDirectory()) throw cannotLoad(`${file} is a folder, not a file`);
}

/** Returns undefined if the path does not exist. Refuses a path below a file, which cannot exist. */
function statIfAny(path: string): Stats | undefined {
  const found = statOrNone(path);
  if (found) return found;
  let above = dirname(path);
  while (!statOrNone(above) && dirname(above) !== above) above = dirname(above);
  if (statOrNone(above)?.isFile()) throw notFolder(above);
  return undefined;
}

/** Some versions of Node throw for a path below a file, others return undefined. */
function statOrNone(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOTDIR") return undefined;
    throw thrown;
  }
}

const notFolder = (path: string): HoldfastError => cannotLoad(`${path} is not a folder`);

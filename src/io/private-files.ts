// Modes of new files, which only their owner may read because they hold token keys and users' texts, and their paths.
import { chmodSync, lstatSync, mkdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { invalidOption } from "../core/errors.ts";

export const privateFile = 0o600;
const privateFolder = 0o700;

/** Creates a folder and its parents if they are missing. Existing folders keep their mode. */
export function makeFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isFile()) throw invalidOption(`${folder} is a file, not a folder`);
  mkdirSync(folder, { recursive: true, mode: privateFolder });
}

/**
 * Returns the file that a new version replaces: the target of a link, not the link. Undefined for a pipe or a device,
 * which is written to and never replaced. Refuses a folder.
 */
export function fileToReplace(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory()) throw invalidOption(`${path} is a folder, not a file`);
  if (found) return found.isFile() ? realpathSync(path) : undefined;
  const isLink = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return isLink ? fileToReplace(resolve(realpathSync(dirname(path)), readlinkSync(path))) : path;
}

/** Copies the mode of a file to the file that replaces it. */
export function keepMode(from: string, to: string): void {
  const before = statSync(from, { throwIfNoEntry: false });
  if (before !== undefined) chmodSync(to, before.mode & 0o777);
}

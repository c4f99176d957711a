// Modes for new files. Sessions hold token keys and users' texts, so only the owner may read them.
import { chmodSync, mkdirSync, statSync } from "node:fs";

export const privateFile = 0o600;
const privateFolder = 0o700;

/** Creates a folder and its parents if they are missing. Existing folders keep their mode. */
export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: privateFolder });
}

/** Copies the mode of a file to the file that replaces it. */
export function keepMode(from: string, to: string): void {
  const before = statSync(from, { throwIfNoEntry: false });
  if (before !== undefined) chmodSync(to, before.mode & 0o777);
}

// Modes of new files: sessions hold keys of tokens and what users wrote, so only the owner may read them.
import { chmodSync, mkdirSync, statSync } from "node:fs";

/** The mode of a new file. */
export const privateFile = 0o600;
const privateFolder = 0o700;

/** Creates a folder and its parents if they are missing. Existing folders keep their mode. */
export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: privateFolder });
}

/** Gives a file that replaces another one the mode of that one. */
export function keepMode(from: string, to: string): void {
  const before = statSync(from, { throwIfNoEntry: false });
  if (before !== undefined) chmodSync(to, before.mode & 0o777);
}

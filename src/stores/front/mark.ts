// Marks: a short text that stands for a whole log, so that a writer can tell its log from another of the same length.
import { hash } from "node:crypto";
import type { NewEntry } from "../../core/store.ts";

/**
 * The mark of a log after some more entries: a hash of the mark before them and of all that is in them, 96 bits of it.
 * Equal marks mean equal logs, whatever the clocks of their writers showed. A log without entries has the mark "".
 */
export function markAfter(mark: string, entries: readonly NewEntry[]): string {
  let after = mark;
  for (const { at, key, body } of entries) {
    after = hash(
      "sha256",
      `${after}\n${at}\n${key === undefined ? "" : `=${key.length}:${key}`}\n${body}`,
      "base64url",
    ).slice(0, 16);
  }
  return after;
}

/** The mark of a log whose newest entry was written by a version without marks: the time of that entry. */
export function timeMark(at: number): string {
  return `@${at}`;
}

/** The time that such a mark holds; undefined if it is a hash. */
export function timeOfMark(mark: string): number | undefined {
  return mark.startsWith("@") ? Number(mark.slice(1)) : undefined;
}

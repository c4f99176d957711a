// A mark is a short string that identifies a whole log, so that a writer can distinguish logs of equal length.
import { hash } from "node:crypto";
import type { NewEntry } from "../../core/store.ts";

/**
 * Returns a log's mark after more entries, `HASH@TIME`: 96 bits of a hash of the previous mark and the entries, and the
 * last entry's timestamp. Equal hashes mean equal logs, whatever their writers' clocks showed. The time is for stores
 * without hashes. A log without entries has the mark "".
 */
export function markAfter(mark: string, entries: readonly NewEntry[]): string {
  let after = mark;
  for (const { at, key, body } of entries) {
    const before = hashOfMark(after) ?? after;
    const text = `${before}\n${at}\n${key === undefined ? "" : `=${key.length}:${key}`}\n${body}`;
    after = `${hash("sha256", text, "base64url").slice(0, 16)}@${at}`;
  }
  return after;
}

/** Like `markAfter`, without the hash. */
export function timeAfter(mark: string, entries: readonly NewEntry[]): string {
  const last = entries.at(-1);
  return last ? timeMark(last.at) : mark;
}

/** Returns a mark without a hash, from the timestamp of the log's newest entry. */
export function timeMark(at: number): string {
  return `@${at}`;
}

/** Returns whether a mark has only a time. */
export const isTime = (mark: string): boolean => mark.charCodeAt(0) === 64;

/** Returns the time in a mark, if it has one. */
export function timeOfMark(mark: string): number | undefined {
  const at = mark.indexOf("@");
  return at < 0 ? undefined : Number(mark.slice(at + 1));
}

/** Returns the hash in a mark, if it has one. */
export function hashOfMark(mark: string): string | undefined {
  const at = mark.indexOf("@");
  if (at === 0 || mark === "") return undefined;
  return at < 0 ? mark : mark.slice(0, at);
}

/** Returns whether two marks may belong to the same log. Compares hashes, or times if one has no hash. */
export function isSameMark(one: string, other: string): boolean {
  const [hash, otherHash] = [hashOfMark(one), hashOfMark(other)];
  if (hash !== undefined && otherHash !== undefined) return hash === otherHash;
  return timeOfMark(one) === timeOfMark(other);
}

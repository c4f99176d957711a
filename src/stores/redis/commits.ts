// Converts commits to arguments for the Redis scripts, and assigns sessions to buckets.
import type { Write } from "../front.ts";
import { timeMark, timeOfMark } from "../front/mark.ts";

/** A commit as arguments: for the script `one` if that is enough, otherwise for the other scripts. */
export interface Prepared {
  session: string;
  args: Argument[];
  isOne: boolean;
}

export type Argument = string | number;

/** Returns a commit as arguments, in the order that the scripts expect. */
export function prepare({ session, seen, entries, mark, heading, snapshot }: Write): Prepared {
  const [first] = entries;
  const kept = timeOfMark(mark) === undefined ? mark : "";
  if (seen.version > 0 && entries.length === 1 && heading === undefined && snapshot === undefined) {
    const args = [session, seen.version, first.at, seen.mark, keyField(first.key), first.body, kept];
    return { session, args, isOne: true };
  }
  const args: Argument[] = [
    session,
    seen.version,
    entries.at(-1)!.at,
    heading === undefined ? "" : JSON.stringify(heading),
    heading === undefined ? "" : laneOf(heading.environment, heading.ended === undefined),
    snapshot === undefined ? "" : snapshot.version,
    snapshot === undefined ? "" : snapshot.body,
    entries.length,
    `${seen.mark} ${kept}`,
  ];
  for (const { at, key, body } of entries) args.push(`${at}${keyField(key)}`, body);
  return { session, args, isOne: false };
}

/** Converts the arguments of `one` for the scripts that take any commit. */
export function wholeArgs({ args, isOne }: Prepared): Argument[] {
  if (!isOne) return args;
  const [session, version, touched, seen, key, body, mark] = args;
  return [session!, version!, touched!, "", "", "", "", 1, `${seen} ${mark}`, `${touched}${key}`, body!];
}

/** Returns a log's mark. A stored mark of another version is outdated; the newest entry's time replaces it. */
export function readMark(version: string, touched: string, stored: string | null | undefined): string {
  return stored?.startsWith(`${version}:`) ? stored.slice(version.length + 1) : timeMark(Number(touched));
}

/** Returns the field of a key in the hash of keys. The sign distinguishes an empty key from a missing key. */
export function keyField(key: string | undefined): string {
  return key === undefined ? "" : `=${key}`;
}

/** Returns the index by idle time that contains a session. */
export function laneOf(environment: string, open: boolean): string {
  return `${open ? "o" : "x"}:${environment}`;
}

/** Returns a session's bucket. Names of stored keys contain it, so this function can never change. */
export function hashBucket(session: string, buckets: number): number {
  if (buckets === 1) return 0;
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(session)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash ^= hash >>> 16;
  return (hash >>> 0) % buckets;
}

/** Groups items by bucket, in the order of buckets. */
export function byBucket<T>(items: readonly T[], bucketOf: (item: T) => number): [bucket: number, items: T[]][] {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const bucket = bucketOf(item);
    const group = groups.get(bucket);
    if (group) group.push(item);
    else groups.set(bucket, [item]);
  }
  return [...groups].sort(([a], [b]) => a - b);
}

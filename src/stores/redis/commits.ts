// Commits as the scripts of the Redis store take them, and the buckets that sessions are in.
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, Heading } from "../../core/store.ts";
import { toText } from "../front/utf8-escape.ts";

/** A commit on its way. The caller may do with the one it gave what it likes. */
export interface Prepared {
  /** As Redis knows it, like all texts from here on: see `toText`. */
  session: string;
  /** For the script `one` if it is one for it, and otherwise as the others expect it. */
  args: Argument[];
  isOne: boolean;
}

export type Argument = string | number;

/** A copy of a commit, in the order that the scripts expect. A key has a sign before it, to tell an empty one from none. */
export function prepare({ session: id, version, seen, entries, heading, snapshot }: Commit): Prepared {
  const session = toText(id);
  const [first] = entries;
  if (version > 0 && entries.length === 1 && heading === undefined && snapshot === undefined) {
    return {
      session,
      args: [session, version, first.at, seen ?? "", keyOf(first.key), toText(first.body)],
      isOne: true,
    };
  }
  const args: Argument[] = [
    session,
    version,
    entries.at(-1)!.at,
    heading === undefined ? "" : textOf(heading),
    heading === undefined ? "" : laneOf(toText(heading.environment), heading.ended === undefined),
    snapshot === undefined ? "" : snapshot.version,
    snapshot === undefined ? "" : toText(snapshot.body),
    entries.length,
    seen ?? "",
  ];
  for (const { key, body } of entries) args.push(keyOf(key), toText(body));
  return { session, args, isOne: false };
}

/** The arguments for those scripts that take any commit. */
export function wholeArgs({ args, isOne }: Prepared): Argument[] {
  if (!isOne) return args;
  const [session, version, touched, seen, key, body] = args as [string, number, number, Argument, string, string];
  return [session, version, touched, "", "", "", "", 1, seen, key, body];
}

export function assertHeading({ version, heading }: Commit): void {
  if (version > 0 || heading !== undefined) return;
  throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
}

/** Whether two entries of a commit have the same key. */
export function hasTwins({ entries }: Commit): boolean {
  if (entries.length === 1) return false;
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length;
}

export function keyOf(key: string | undefined): string {
  return key === undefined ? "" : `=${toText(key)}`;
}

/** The index that a session is in by the time of its newest entry, its environment being as Redis knows it. */
export function laneOf(environment: string, open: boolean): string {
  return `${open ? "o" : "x"}:${environment}`;
}

function textOf({ environment, opened, parent, ended }: Heading): string {
  return JSON.stringify({ environment, opened, parent, ended });
}

/** The bucket of a session. What it gives is stored in the names of keys, and can never change. */
export function bucketOf(session: string, buckets: number): number {
  if (buckets === 1) return 0;
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(session)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash ^= hash >>> 16;
  return (hash >>> 0) % buckets;
}

export function bucketKey(prefix: string, bucket: number): string {
  return `${prefix}:{${bucket}}`;
}

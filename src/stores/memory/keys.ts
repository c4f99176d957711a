// The keys of a log in memory, and the version that each of them is at.
import type { NewEntry } from "../../core/store.ts";

/** The version of each key: pairs in a row while they are few, as a Map takes more room than the log of most sessions. */
export type Keys = (string | number)[] | Map<string, number>;

/** Up to this many keys are pairs in a row. */
const mostPairs = 8;

/** Whether one of the entries has a key that is taken, or two of them have the same. */
export function isRepeat(entries: NewEntry[], taken: Keys | undefined): boolean {
  const isTaken = (key: string | undefined): boolean => key !== undefined && versionOf(taken, key) !== undefined;
  if (entries.length === 1) return isTaken(entries[0]!.key);
  const keys = entries.flatMap(({ key }) => key ?? []);
  return new Set(keys).size < keys.length || keys.some(isTaken);
}

export function versionOf(keys: Keys = [], key: string): number | undefined {
  if (keys instanceof Map) return keys.get(key);
  for (let index = 0; index < keys.length; index += 2) {
    if (keys[index] === key) return keys[index + 1] as number;
  }
  return undefined;
}

export function withKey(keys: Keys = [], key: string, version: number): Keys {
  if (keys instanceof Map) return keys.set(key, version);
  if (keys.length < 2 * mostPairs) return keys.concat(key, version);
  const map = new Map<string, number>();
  for (let index = 0; index < keys.length; index += 2) map.set(keys[index] as string, keys[index + 1] as number);
  return map.set(key, version);
}

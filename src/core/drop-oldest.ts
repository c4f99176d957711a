// dropOldest(): bounds a map or a set that remembers the newest entries.

/** Removes the entry that was added first, if there are more than `most` entries. */
export function dropOldest<K>(kept: Map<K, unknown> | Set<K>, most: number): void {
  if (kept.size > most) kept.delete(kept.keys().next().value as K);
}

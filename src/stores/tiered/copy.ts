// Copying a log from one store to another, entries, keys, times and snapshots.
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, NewEntry, Snapshot, Store } from "../../core/store.ts";
import { hidden, unwrap, wrap } from "./wrap.ts";

/** The most entries of one commit, and the most characters, if it is more than one entry. */
const copied = 500;
const copiedCharacters = 1_000_000;

/** Copies a log with all its snapshots, under an id that nobody looks for yet. Undefined if it is not there (any more). */
export async function copyLog(
  from: Store,
  source: string,
  to: Store,
  target: string,
): Promise<{ version: number; touched: number } | undefined> {
  const kept = await from.read(source, 0);
  if (!kept) return undefined;
  const entries = kept.flatMap((entry): NewEntry[] => {
    const given = unwrap(entry);
    return given ? [wrap(given)] : [];
  });
  const snapshots: Snapshot[] = [];
  for (let version = entries.length; version > 0;) {
    const snapshot = (await from.load(source, version))?.snapshot;
    if (snapshot) snapshots.unshift(snapshot);
    version = snapshot ? snapshot.version - 1 : 0;
  }
  for (let version = 0; version < entries.length;) {
    const snapshot = snapshots.shift();
    const end = Math.min(snapshot ? Math.max(snapshot.version, version + 1) : entries.length, entries.length);
    while (version < end) {
      const part = partOf(entries, version, end);
      const isLast = version + part.length === end;
      const commit: Commit = { session: target, version, entries: part, ...(isLast && snapshot && { snapshot }) };
      const answer = await to.append(
        version === 0 ? { ...commit, heading: { environment: hidden, opened: 0 } } : commit,
      );
      if (answer !== "ok") throw new HoldfastError("store_failed", `a copy of a session was refused with ${answer}`);
      version += part.length;
    }
  }
  return { version: entries.length, touched: entries.at(-1)!.at };
}

/** As many entries as go into one commit. */
function partOf(entries: NewEntry[], start: number, end: number): Commit["entries"] {
  let size = entries[start]!.body.length;
  let next = start + 1;
  for (; next < Math.min(start + copied, end); next++) {
    size += entries[next]!.body.length;
    if (size > copiedCharacters) break;
  }
  return entries.slice(start, next) as Commit["entries"];
}

// Copying a log from one store to another, entries, keys, times and snapshots.
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, NewEntry, Snapshot, Store } from "../../core/store.ts";
import { hidden, unwrap, wrap } from "./wrap.ts";

/** The most entries of one commit. */
const copied = 500;

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
    for (; version < end; version = Math.min(version + copied, end)) {
      const part = entries.slice(version, Math.min(version + copied, end)) as Commit["entries"];
      const isLast = version + part.length === end;
      const commit: Commit = { session: target, version, entries: part, ...(isLast && snapshot && { snapshot }) };
      const answer = await to.append(
        version === 0 ? { ...commit, heading: { environment: hidden, opened: 0 } } : commit,
      );
      if (answer !== "ok") throw new HoldfastError("store_failed", `a copy of a session was refused with ${answer}`);
    }
  }
  return { version: entries.length, touched: entries.at(-1)!.at };
}

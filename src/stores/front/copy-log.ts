// copyLog(): copies a log's entries into another store, page by page. readPages() reads a whole log in pages.
import type { Appended, Commit, Entry, Heading, NewEntry, Snapshot, Store } from "../../core/store.ts";
import { copyEntry } from "./unit.ts";

/** Maximum entries and approximate bytes in a page, unless one entry is larger. A copy commits page by page. */
const pageEntries = 2000;
const pageBytes = 1024 * 1024;

/** Reads a log's entries in pages. Yields nothing for a missing log. */
export async function* readPages(store: Store, session: string, after = 0, upTo = Infinity): AsyncGenerator<Entry[]> {
  for (let from = after; from < upTo;) {
    const page = await store.read(session, from, Math.min(pageEntries, upTo - from), pageBytes);
    const last = page?.at(-1);
    if (!page || !last) return;
    yield page;
    from = last.version;
  }
}

export interface LogCopy {
  from: Store;
  source: string;
  to: Store;
  target: string;
  /** The version that the target already has. Default 0: the target does not exist. */
  after?: number;
  /** The last version to copy. */
  upTo: number;
  /** The target's heading, and its heading after the last entry. */
  heading: Heading;
  lastHeading?: Heading | undefined;
  /** The target's mark when it is complete. */
  mark?: string | undefined;
  /** Snapshots of these versions, in order. */
  snapshots?: Snapshot[];
  /** Converts an entry for the target. */
  change?(entry: Entry): NewEntry;
  /** Called with the entries of each commit. */
  onCommit?(entries: readonly NewEntry[]): void;
}

/**
 * Copies a log, or its entries after a version. Returns the target's version, and the answer if a commit was refused.
 * The version is lower than `upTo` if the source is shorter.
 */
export async function copyLog(copy: LogCopy): Promise<{ version: number; refused?: Appended }> {
  const { from, source, to, target, after = 0, upTo, heading, lastHeading, mark, change = copyEntry, onCommit } = copy;
  const snapshots = copy.snapshots?.filter(({ version }) => version > after) ?? [];
  let version = after;
  for await (const page of readPages(from, source, after, upTo)) {
    while (version < page.at(-1)!.version) {
      const [snapshot] = snapshots;
      const start = version - page[0]!.version + 1;
      const entries = page.slice(start, snapshot && start + snapshot.version - version).map(change);
      const end = version + entries.length;
      const commit: Commit = { session: target, version, entries: entries as Commit["entries"] };
      if (version === 0) commit.heading = heading;
      if (snapshot?.version === end) commit.snapshot = snapshots.shift()!;
      if (end === upTo && lastHeading) commit.heading = lastHeading;
      if (end === upTo && mark !== undefined) commit.mark = mark;
      const answer = await to.append(commit);
      if (answer !== "ok") return { version, refused: answer };
      onCommit?.(entries);
      version = end;
    }
  }
  return { version };
}

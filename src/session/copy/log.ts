// Copies one log: compares the entries that the target already has, writes the rest, and reads the copy back.
import type { Heading, Listed, Store } from "../../core/store.ts";
import { copyLog as copyEntries, readPages } from "../../stores/front/copy-log.ts";
import { markAfter } from "../../stores/front/mark.ts";

export interface Fate {
  kind: "copied" | "equal" | "differs" | "changed" | "failed";
  /** How many entries were written. */
  entries: number;
  message?: string;
}

export interface LogToCopy {
  from: Store;
  to: Store;
  /** The log's row in the source's list. The log is copied up to the row's version, so that the two match. */
  row: Listed;
  /** Resolves when the target has all earlier logs of the list. */
  turn: Promise<void>;
  opened(): void;
}

export async function copyLog({ from, to, row, turn, opened }: LogToCopy): Promise<Fate> {
  const { session, version: upTo } = row;
  const there = await endOf(to, session);
  if (there.version > 0) opened();
  if (there.version > upTo) {
    return {
      kind: "differs",
      entries: 0,
      message: `the target has version ${there.version}, and the source only ${upTo}`,
    };
  }
  const loaded = await from.load(session, upTo);
  if (!loaded) return gone(0);
  const start = await endOf(from, session, there.version);
  if (start.mark !== there.mark) {
    return { kind: "differs", entries: 0, message: `its first ${there.version} entries are different in the target` };
  }
  if (there.version === upTo) return { kind: "equal", entries: 0 };
  if (there.version === 0) await turn;
  let { mark } = start;
  const { version, refused } = await copyEntries({
    from,
    source: session,
    to,
    target: session,
    after: there.version,
    upTo,
    ...headingsOf(row),
    mark: loaded.version === upTo ? loaded.mark : undefined,
    snapshots: loaded.snapshot ? [loaded.snapshot] : [],
    onCommit(entries) {
      opened();
      mark = markAfter(mark, entries);
    },
  });
  const entries = version - there.version;
  if (refused) return { kind: "differs", entries, message: `another writer is changing it in the target (${refused})` };
  if (version < upTo) return gone(entries);
  if ((await endOf(to, session)).mark === mark) return { kind: "copied", entries };
  return { kind: "failed", entries, message: "the copy differs from the source" };
}

const gone = (entries: number): Fate => ({
  kind: "changed",
  entries,
  message: "it was deleted from the source during the copy",
});

/** Returns the copy's heading. For an ended session, the field `ended` is added with the last entry. */
function headingsOf({ environment, opened, parent, ended }: Listed): { heading: Heading; lastHeading?: Heading } {
  const heading: Heading = { environment, opened, ...(parent && { parent }) };
  return ended === undefined ? { heading } : { heading, lastHeading: { ...heading, ended } };
}

/**
 * Reads a log's entries. Returns the last entry's version and the log's mark. The mark is computed from the entries,
 * because the store's own mark may be only a timestamp.
 */
async function endOf(store: Store, session: string, upTo?: number): Promise<{ version: number; mark: string }> {
  let [version, mark] = [0, ""];
  for await (const page of readPages(store, session, 0, upTo)) {
    mark = markAfter(mark, page);
    version = page.at(-1)!.version;
  }
  return { version, mark };
}

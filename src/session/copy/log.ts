// Copies one log: compares the part that already exists, writes the rest, and reads it back.
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
  /** The log is copied up to the version in this row, so that it matches its heading. */
  row: Listed;
  /** Resolves when all earlier logs of the list are opened. */
  turn: Promise<void>;
  opened(): void;
}

export async function copyLog({ from, to, row, turn, opened }: LogToCopy): Promise<Fate> {
  const { session, version: upTo } = row;
  const there = await endOf(to, session);
  if (there.version > 0) opened();
  if (there.version > upTo) {
    return { kind: "differs", entries: 0, message: `it is at version ${there.version} there, and at ${upTo} here` };
  }
  const loaded = await from.load(session, upTo);
  if (!loaded) return gone(0);
  const start = await endOf(from, session, there.version);
  if (start.mark !== there.mark) {
    return { kind: "differs", entries: 0, message: `its first ${there.version} entries are others there` };
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
  if (refused) return { kind: "differs", entries, message: `others write to it there (${refused})` };
  if (version < upTo) return gone(entries);
  if ((await endOf(to, session)).mark === mark) return { kind: "copied", entries };
  return { kind: "failed", entries, message: "it did not come out as it went in" };
}

const gone = (entries: number): Fate => ({ kind: "changed", entries, message: "it was deleted meanwhile" });

/** Returns the heading for a copy without the session's end, which the last entry adds. */
function headingsOf({ environment, opened, parent, ended }: Listed): { heading: Heading; lastHeading?: Heading } {
  const heading: Heading = { environment, opened, ...(parent && { parent }) };
  return ended === undefined ? { heading } : { heading, lastHeading: { ...heading, ended } };
}

/**
 * Reads all entries. Returns their version and mark. The mark is computed here, because the store's own may be just a
 * time.
 */
async function endOf(store: Store, session: string, upTo?: number): Promise<{ version: number; mark: string }> {
  let [version, mark] = [0, ""];
  for await (const page of readPages(store, session, 0, upTo)) {
    mark = markAfter(mark, page);
    version = page.at(-1)!.version;
  }
  return { version, mark };
}

// The contract of a store: where logs live. Entries are text to it; what they mean is not its business.
import { invalidOption } from "./errors.ts";
import type { EndReason } from "./event.ts";

/** One event of a log. */
export interface Entry {
  version: number;
  body: string;
}

/** One event to be appended. */
export interface NewEntry {
  body: string;
  /** When it happened, never before the entry ahead of it; that of the newest is what `idleBefore` looks at. */
  at: number;
  /** At most one entry of a log has this key. */
  key?: string;
}

/** What the entries up to a version amount to. */
export interface Snapshot {
  version: number;
  body: string;
}

/** What `list` shows of a session. */
export interface Heading {
  environment: string;
  opened: number;
  parent?: { session: string; version: number };
  ended?: EndReason;
}

export interface Commit {
  session: string;
  /** The version that the writer saw. 0 creates the log. */
  version: number;
  /**
   * When the newest entry happened that the writer saw. A log that ends at that version with an entry of another time is
   * another one, and the commit a `conflict`: the session was deleted and opened again, or the store has gone over to a copy
   * of itself and lost what it had answered.
   */
  seen?: number;
  entries: [NewEntry, ...NewEntry[]];
  /** Given with version 0, and whenever it changed. */
  heading?: Heading;
  /** The fold of the log at a version up to the end of these entries, above that of any earlier one; if one is due. */
  snapshot?: Snapshot;
}

/**
 * `conflict`: the log is not at that version (any more). `duplicate`: it has an entry with one of the keys, or two of
 * the new ones have the same; where both are true it is this, which says more. Commits handed over together are a
 * `duplicate` if any of them is, and otherwise a `conflict` if any is.
 */
export type Appended = "ok" | "conflict" | "duplicate";

export interface Listed extends Heading {
  session: string;
  version: number;
  /** When its newest entry happened. */
  touched: number;
}

export interface Filter {
  environment?: string;
  /** true: not ended. false: ended. */
  open?: boolean;
  openedBefore?: number;
  /** Only sessions whose newest entry is older, the longest idle first. Without it: in the order of opening. */
  idleBefore?: number;
  /** Only what comes after this session in the order of opening; unknown, it is `session_not_found`. Not with idleBefore. */
  after?: string;
}

/**
 * Where logs live. Every verb but `close` rejects with `store_closed` once the store is closed. A commit, and commits
 * handed over together, are stored whole or not at all; when `append` has resolved with "ok" on a persistent store,
 * they survive the end of the process.
 */
export interface Store {
  /** Whether what is stored survives the process. Adds cases to the shared suite. */
  readonly persistent: boolean;
  /**
   * Appends to a log, or to several at once, all or none of them: then each commit is for another session, and if one is
   * refused nothing of any is stored. Whoever has read one of them, in whichever process, finds them all.
   */
  append(commit: Commit, ...together: Commit[]): Promise<Appended>;
  /** The entries after a version, at most `limit`. Undefined if there is no such log. */
  read(session: string, after: number, limit?: number): Promise<Entry[] | undefined>;
  /**
   * The shortest way to a version: a snapshot at or before it, and the entries from there. By default, and beyond the
   * end, to the newest.
   */
  load(session: string, version?: number): Promise<{ snapshot?: Snapshot; entries: Entry[] } | undefined>;
  /** The entry that has this key. */
  find(session: string, key: string): Promise<Entry | undefined>;
  /**
   * Comes to an end also if its reader opens, changes and deletes sessions meanwhile. It is no picture of one moment:
   * each session is shown as it was at some time since the listing began, a later one at no earlier time.
   */
  list(filter?: Filter): AsyncIterable<Listed>;
  /** How many sessions of an environment have not ended. */
  count(environment: string): Promise<number>;
  /**
   * Forgets a session altogether; true if it did. With `end` only if its log still ends there, found and done in one step:
   * so a request that was long under way does not take what was opened or committed since.
   */
  delete(session: string, end?: Pick<Commit, "version" | "seen">): Promise<boolean>;
  /** Waits for what is being written. Closing twice is fine. */
  close(): Promise<void>;
}

/** Refuses commits to be appended together of which two are for the same session. */
export function assertDifferentSessions(commits: Commit[]): void {
  if (new Set(commits.map(({ session }) => session)).size === commits.length) return;
  throw invalidOption("commits that are appended together must be for different sessions");
}

// The contract of a store, which holds logs. It treats entries as text.
import type { EndReason } from "./event.ts";

/** An entry to append. */
export interface NewEntry {
  body: string;
  /**
   * The event's timestamp, never earlier than that of the previous entry. `idleBefore` compares the newest entry's
   * timestamp.
   */
  at: number;
  /** At most one entry of a log has this key. */
  key?: string;
}

/** An entry in a log. */
export interface Entry extends NewEntry {
  version: number;
}

/** The fold of the entries up to a version. */
export interface Snapshot {
  version: number;
  body: string;
}

/** The session fields that `list` returns. */
export interface Heading {
  environment: string;
  opened: number;
  parent?: { session: string; version: number };
  ended?: EndReason;
}

export interface Commit {
  session: string;
  /** The newest version that the writer knows. 0 creates the log. */
  version: number;
  /**
   * The log's mark at that version. If the log ends there with a different mark, it is a different log, and the commit
   * is a `conflict`. Either the session was deleted and opened again, or the store failed over to a copy and lost
   * acknowledged entries.
   */
  seen?: string;
  /** The log's mark after these entries. By default the store computes it from `seen`. */
  mark?: string;
  entries: [NewEntry, ...NewEntry[]];
  /** Required with version 0, and after every change. */
  heading?: Heading;
  /** The fold of the log up to a version, at most that of the last new entry. Newer than any earlier snapshot. */
  snapshot?: Snapshot;
  /** Milliseconds that this call has already waited for the store. They shorten its time limit. */
  waited?: number;
}

/** A log, or part of it, as it was at one moment. */
export interface Loaded {
  /** The log's newest version, and its mark: a short text that identifies all its entries. */
  version: number;
  mark: string;
  /** The mark at the version that the caller has. Only returned by stores whose marks are just timestamps. */
  seen?: string;
  snapshot?: Snapshot;
  entries: Entry[];
}

/**
 * `conflict`: the log is at a different version. `duplicate`: the log has an entry with one of the keys, or two new
 * entries have the same key. `duplicate` takes precedence. Commits appended together are a `duplicate` if one of them
 * is, otherwise a `conflict` if one of them is.
 */
export type Appended = "ok" | "conflict" | "duplicate";

export interface Listed extends Heading {
  session: string;
  version: number;
  /** The timestamp of the session's newest entry. */
  touched: number;
}

export interface Filter {
  environment?: string;
  /** true: not ended. false: ended. */
  open?: boolean;
  openedBefore?: number;
  /**
   * Lists only sessions whose newest entry is older than this time, the longest idle first. Default: all sessions, in
   * the order they were opened.
   */
  idleBefore?: number;
  /**
   * Lists only sessions opened after this session. An unknown id fails with `session_not_found`. Cannot be combined
   * with `idleBefore`.
   */
  after?: string;
}

/**
 * Holds logs. Once the store is closed, every method except `close` rejects with `store_closed`. A commit, or a group
 * of commits appended together, is stored completely or not at all. Once `append` has resolved with "ok" on a
 * persistent store, the commits survive the end of the process.
 */
export interface Store {
  /** Whether logs survive the process. If so, the shared test suite runs additional cases. */
  readonly persistent: boolean;
  /**
   * Appends to one log, or to several logs in one step. With several, each commit is for a different session. If one is
   * refused, all are. Once a reader in any process has read one of these commits, it finds all of them.
   */
  append(commit: Commit, ...together: Commit[]): Promise<Appended>;
  /**
   * Returns up to `limit` entries after a version; undefined for a missing log. With `bytes`, the page ends once it has
   * about that size.
   */
  read(session: string, after: number, limit?: number, bytes?: number): Promise<Entry[] | undefined>;
  /**
   * Returns the data to rebuild a version: the newest snapshot at or before it, and the entries after the snapshot. If
   * `version` is missing or beyond the end of the log, rebuilds the newest version. If the caller already has version
   * `after`, only newer entries are returned. `waited`: as in `Commit`.
   */
  load(session: string, version?: number, after?: number, waited?: number): Promise<Loaded | undefined>;
  /** Returns the entry with this key. */
  find(session: string, key: string, waited?: number): Promise<Entry | undefined>;
  /**
   * Lists sessions. The list ends even if its reader opens, changes and deletes sessions in the meantime. It is not a
   * snapshot: each session appears as it was at some time since the start, and later rows are never older than earlier
   * ones.
   */
  list(filter?: Filter): AsyncIterable<Listed>;
  /** Counts an environment's open sessions. */
  count(environment: string): Promise<number>;
  /**
   * Deletes a session; returns whether it existed. With `end`, deletes it only if its log still ends there, checked and
   * deleted in one step. So a delayed request cannot delete newer sessions or commits.
   */
  delete(session: string, end?: Pick<Commit, "version" | "seen">): Promise<boolean>;
  /** Waits for running writes. A second call does nothing. */
  close(): Promise<void>;
}

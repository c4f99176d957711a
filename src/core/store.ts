// The contract of a store, which holds logs. It treats entries as text.
import type { EndReason } from "./event.ts";

/** One event to append. */
export interface NewEntry {
  body: string;
  /** Time of the event, never before that of the previous entry. `idleBefore` compares the time of the newest entry. */
  at: number;
  /** At most one entry of a log has this key. */
  key?: string;
}

/** One event of a log. */
export interface Entry extends NewEntry {
  version: number;
}

/** The fold of the entries up to a version. */
export interface Snapshot {
  version: number;
  body: string;
}

/** The facts about a session that `list` returns. */
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
   * The mark of the log at that version. If the log ends there with another mark, it is another log, and the commit is a
   * `conflict`. Either the session was deleted and opened again, or the store failed over to a copy and lost acknowledged
   * entries.
   */
  seen?: string;
  /** The mark of the log after these entries. By default the store computes it from `seen`. */
  mark?: string;
  entries: [NewEntry, ...NewEntry[]];
  /** Present with version 0, and after every change. */
  heading?: Heading;
  /** The fold of the log at one of its versions, these entries included; newer than any earlier snapshot. */
  snapshot?: Snapshot;
  /** Milliseconds that this call has waited for the store already. They shorten its time limit. */
  waited?: number;
}

/** A log, or a part of it, as it was at one moment. */
export interface Loaded {
  /** The newest version of the log, and its mark: a short text that stands for all its entries. */
  version: number;
  mark: string;
  /** The mark at the version that the caller has, from stores whose marks are only times. */
  seen?: string;
  snapshot?: Snapshot;
  entries: Entry[];
}

/**
 * `conflict`: the log is at another version. `duplicate`: the log has an entry with one of the keys, or two new entries
 * have the same key; it takes precedence. Commits appended together are a `duplicate` if one of them is, otherwise a
 * `conflict` if one of them is.
 */
export type Appended = "ok" | "conflict" | "duplicate";

export interface Listed extends Heading {
  session: string;
  version: number;
  /** The time of its newest entry. */
  touched: number;
}

export interface Filter {
  environment?: string;
  /** true: not ended. false: ended. */
  open?: boolean;
  openedBefore?: number;
  /** Only sessions whose newest entry is older, the longest idle first. Default: all, in the order of opening. */
  idleBefore?: number;
  /** Only sessions opened after this one. An unknown id is `session_not_found`. Not with `idleBefore`. */
  after?: string;
}

/**
 * Holds logs. Every verb but `close` rejects with `store_closed` once the store is closed. A commit, and commits
 * appended together, are stored completely or not at all. Once `append` has resolved with "ok" on a persistent store,
 * they survive the end of the process.
 */
export interface Store {
  /** Whether logs survive the process. Adds cases to the shared suite. */
  readonly persistent: boolean;
  /**
   * Appends to one log, or to several at once. Then each commit is for another session, and a refused one refuses all. A
   * reader that has read one of them, in any process, finds all of them.
   */
  append(commit: Commit, ...together: Commit[]): Promise<Appended>;
  /**
   * Returns up to `limit` entries after a version; undefined for a missing log. With `bytes`, stops after the entry that
   * makes the page about that size.
   */
  read(session: string, after: number, limit?: number, bytes?: number): Promise<Entry[] | undefined>;
  /**
   * Returns the shortest way to a version: a snapshot at or before it, and the entries from there. By default, and for
   * versions beyond the end, it is the newest version. With `after`, a version that the caller has, only the entries
   * after it. `waited`: the milliseconds that the caller's call has waited for the store before, as in a commit.
   */
  load(session: string, version?: number, after?: number, waited?: number): Promise<Loaded | undefined>;
  /** Returns the entry with this key. */
  find(session: string, key: string, waited?: number): Promise<Entry | undefined>;
  /**
   * Lists sessions. It ends even if its reader opens, changes and deletes sessions meanwhile. It is not a snapshot: each
   * session appears as at some time since the start, and later rows are never older than earlier ones.
   */
  list(filter?: Filter): AsyncIterable<Listed>;
  /** Counts the open sessions of an environment. */
  count(environment: string): Promise<number>;
  /**
   * Deletes a session; returns whether it existed. With `end`, only if its log still ends there, checked and deleted in
   * one step. So a delayed request does not delete newer sessions or commits.
   */
  delete(session: string, end?: Pick<Commit, "version" | "seen">): Promise<boolean>;
  /** Waits for running writes. A second call does nothing. */
  close(): Promise<void>;
}

// The contract for a driver: the part that differs between stores. `createStore` in ../front.ts does the rest.
import type { ErrorCode } from "../../core/errors.ts";
import type { Appended, Entry, Filter, Heading, Listed, NewEntry, Snapshot } from "../../core/store.ts";

export type { Entry, NewEntry } from "../../core/store.ts";

/** A driver may answer synchronously or asynchronously. */
export type Answer<T> = T | Promise<T>;

/** The end of a log: its version, and a mark that identifies its content. See mark.ts. */
export interface End {
  version: number;
  mark: string;
}

/** One commit of a unit, copied and checked. */
export interface Write {
  session: string;
  /** The log must end at this version. Version 0: there must be no log. An empty mark accepts any log. */
  seen: End;
  entries: readonly [NewEntry, ...NewEntry[]];
  /** The log's mark after the last entry. Stored with the entry, and returned in `End`. */
  mark: string;
  /** Always present with version 0. */
  heading?: Heading;
  /** Ignored if the log has a snapshot at this version, because two processes may write the same snapshot. */
  snapshot?: Snapshot;
}

/** Commits to different sessions that are stored together or not at all. */
export type Unit = readonly [Write, ...Write[]];

/** The entries to read: after a version, up to a version, with limits on their number and bytes, but at least one. */
export interface Range {
  after: number;
  upTo: number;
  /** 0 reads no entry, only the end of the log. */
  limit: number;
  bytes: number;
  /** Whether to start at the newest snapshot between `after` and `upTo`, if there is one. */
  snapshot: boolean;
}

/** A part of a log, read at one moment. */
export interface Page {
  /** The end of the whole log, whichever part was read. */
  end: End;
  /** The log's place in the order of opening. A log that is opened again under the same id has a different place. */
  place: string;
  snapshot?: Snapshot;
  entries: Entry[];
}

/** A request for one page of a listing. */
export interface Listing extends Omit<Filter, "after"> {
  /** "idle": by the newest entry's timestamp, the oldest first, and only rows before `idleBefore`. */
  order: "opened" | "idle";
  /** The `next` from the previous page. In the order of opening, it may also be a session's place. */
  after?: string;
  limit: number;
}

export interface Row extends Listed, End {
  place: string;
}

/** One page of a listing. It may contain rows that the filter excludes, and may be empty before the last page. */
export interface Rows {
  rows: Row[];
  /** The start of the next page; absent at the end. */
  next?: string;
  /**
   * The newest session's place at the first page, as a string that sorts after the places of all other sessions.
   * Sessions opened later are omitted. A driver that does not return `newest` must omit these sessions itself.
   */
  newest?: string;
}

/** The time limit of an operation. */
export interface Call {
  /** The deadline, as a `performance.now()` time. The front then answers, even if the driver has not. */
  readonly until: number;
  /** Why the driver is waiting, if it knows. An error at the deadline includes this reason. */
  reason?: unknown;
}

/** How to handle a failed operation. */
export interface Fault {
  code: ErrorCode;
  /** Text after the driver's name in the message, as in "has no room left". */
  message: string;
  /** "nothing": it is certain that nothing was changed. */
  effect: "nothing" | "unknown";
  /** Whether a retry may succeed. */
  passing?: boolean;
  /** Maximum pause before the next attempt, in milliseconds. By default it grows up to 500. */
  pause?: number;
  /** Whether a single unit in a group caused the failure. If so, each unit is retried alone. */
  single?: boolean;
  /** The cause of the error. Must not contain arguments, which may be secrets or whole bodies. */
  cause?: unknown;
}

/** How units are passed to the driver. By default each unit is passed when it arrives, and many run concurrently. */
export type Groups =
  /** For synchronous drivers: the next unit is passed only after the previous caller has continued. */
  | { of: "unit" }
  /** Groups of simultaneous units of any sessions, up to this many commits and characters. One group runs at a time. */
  | { of: "store"; commits: number; bytes: number }
  /** Like "store", but `lanes` groups run concurrently, and a session has at most one unit in all of them. */
  | { of: "sessions"; commits: number; bytes: number; lanes: number }
  /** Groups of units of one session, one group per session at a time. A unit of several sessions is its own group. */
  | { of: "session"; commits: number };

export interface Driver {
  /** The store's name in messages, as in "the SQLite store /data/runs.db". Contains no secrets. */
  readonly name: string;
  /** Whether stored logs survive the process. */
  readonly persistent: boolean;
  /** Whether a unit may hold several writes. */
  readonly together: boolean;
  /** "utf8": the front escapes characters that UTF-8 text cannot hold: NUL and halves of surrogate pairs. */
  readonly text: "any" | "utf8";
  /** Whether `list` supports the order "idle". Otherwise the front reads all rows and sorts them. */
  readonly idle: boolean;
  /** "time": the driver compares timestamps, not hashes, so it distinguishes fewer logs. The driver gets only times. */
  readonly marks?: "time";
  readonly groups?: Groups;
  /** Appends each unit atomically. Returns one answer per unit. */
  append(units: readonly Unit[], call: Call): Answer<Appended[]>;
  /** Returns undefined for a missing log. */
  read(session: string, range: Range, call: Call): Answer<Page | undefined>;
  list(listing: Listing, call: Call): Answer<Rows>;
  /** Returns true if it deleted a log. With `end`, deletes only a log with this end, checked in the same step. */
  delete(session: string, end: End | undefined, call: Call): Answer<boolean>;
  /** Classifies an error. Default: `store_failed`, and the effect is unknown. */
  fault?(thrown: unknown): Fault;
  /** Whether an operation may exceed its time limit, because the server is answering other requests. Default: no. */
  overtime?(call: Call): boolean;
  /** Default: reads the log until it finds the key. */
  find?(session: string, key: string, call: Call): Answer<Entry | undefined>;
  /** Returns a session's place in the order of opening. Default: reads its log. */
  place?(session: string, call: Call): Answer<string | undefined>;
  /** Default: lists the open sessions. */
  count?(environment: string, call: Call): Answer<number>;
  /** Called once, when no operation is running. */
  close?(): Answer<void>;
}

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
  /**
   * The log must end at this version. Version 0: the log must not exist. An empty mark accepts any log of that version.
   */
  seen: End;
  entries: readonly [NewEntry, ...NewEntry[]];
  /** The log's mark after the last entry. Stored with the entry, and returned in `End`. */
  mark: string;
  /** Always present with version 0. */
  heading?: Heading;
  /**
   * Ignored if the log already has a snapshot at this version, because two processes may find the same snapshot due.
   */
  snapshot?: Snapshot;
}

/** Commits that are stored together or not at all, each for a different session. */
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
   * The newest session's place at the first page, as a text that sorts after the places of all other sessions. Sessions
   * opened later are left out. A driver that does not return it must leave them out itself.
   */
  newest?: string;
}

/** The time limit of a verb. */
export interface Call {
  /** By `performance.now()`. At that time the front answers the caller, even if the driver has not answered. */
  readonly until: number;
  /** Why the driver is waiting, if it knows. The error at the deadline then includes this reason. */
  reason?: unknown;
}

/** How to treat a failed verb. */
export interface Fault {
  code: ErrorCode;
  /** Follows the driver's name in the message: "has no room left". */
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

/** How units are passed to the driver. By default each is passed as it arrives, many at once. */
export type Groups =
  /** One by one: the next unit is passed after the previous caller has continued. For synchronous drivers. */
  | { of: "unit" }
  /** Simultaneous units of any sessions together, up to these commits and characters, one group at a time. */
  | { of: "store"; commits: number; bytes: number }
  /**
   * The same, but each group has at most one unit per session, and this many groups run at once. A session is in one
   * group at a time.
   */
  | { of: "sessions"; commits: number; bytes: number; lanes: number }
  /**
   * Units of one session together, one group per session at a time. A unit with several sessions is a group by itself.
   */
  | { of: "session"; commits: number };

export interface Driver {
  /** For messages: "the SQLite store /data/runs.db". No secrets. */
  readonly name: string;
  /** Whether stored logs survive the process. */
  readonly persistent: boolean;
  /** Whether a unit may hold several writes. If so, the shared test suite runs additional cases. */
  readonly together: boolean;
  /** "utf8": the front escapes characters that UTF-8 text cannot hold: NUL and halves of surrogate pairs. */
  readonly text: "any" | "utf8";
  /** Whether `list` supports the order "idle". Otherwise the front reads all rows and sorts them. */
  readonly idle: boolean;
  /**
   * "time": compares entry timestamps rather than marks, which distinguishes fewer logs. The front passes only times.
   */
  readonly marks?: "time";
  readonly groups?: Groups;
  /** Appends units, each atomically, and returns an answer for each. */
  append(units: readonly Unit[], call: Call): Answer<Appended[]>;
  /** Returns undefined for a missing log. */
  read(session: string, range: Range, call: Call): Answer<Page | undefined>;
  list(listing: Listing, call: Call): Answer<Rows>;
  /** Returns true if it deleted a log. With `end`, deletes only a log that ends there, checked in the same step. */
  delete(session: string, end: End | undefined, call: Call): Answer<boolean>;
  /** Classifies a verb's error. By default the store failed, and the effect is unknown. */
  fault?(thrown: unknown): Fault;
  /** Whether a late verb may take longer, because the server is answering other requests. Default: no. */
  overtime?(call: Call): boolean;
  /** Default: reads the log until it finds the key. */
  find?(session: string, key: string, call: Call): Answer<Entry | undefined>;
  /** Returns a session's place in the order of opening. Default: reads its log. */
  place?(session: string, call: Call): Answer<string | undefined>;
  /** Default: lists the open sessions. */
  count?(environment: string, call: Call): Answer<number>;
  /** Called once, when no verb is running. */
  close?(): Answer<void>;
}

// The contract of a driver: what a store must do by itself. `createStore` in ../front.ts does the rest.
import type { ErrorCode } from "../../core/errors.ts";
import type { Appended, Entry, Filter, Heading, Listed, NewEntry, Snapshot } from "../../core/store.ts";

export type { Entry, NewEntry } from "../../core/store.ts";

/** A driver may answer at once or later. */
export type Answer<T> = T | Promise<T>;

/** Where a log ends: its version, and a mark that stands for all that is in it. See mark.ts. */
export interface End {
  version: number;
  mark: string;
}

/** One commit of a unit, copied and checked. */
export interface Write {
  session: string;
  /** The log must end there. Version 0: there must be no log. An empty mark accepts any log of that version. */
  seen: End;
  entries: readonly [NewEntry, ...NewEntry[]];
  /** The mark of the log after the last entry. Stored with it, and given back in `End`. */
  mark: string;
  /** Always there with version 0. */
  heading?: Heading;
  /** Ignored if the log has one of this version: two processes may find the same snapshot due. */
  snapshot?: Snapshot;
}

/** Commits that are stored together or not at all, each for another session. */
export type Unit = readonly [Write, ...Write[]];

/** Which entries to read: after a version, up to a version, at most so many of about so many bytes, but at least one. */
export interface Range {
  after: number;
  upTo: number;
  /** 0 reads no entry: only where the log ends. */
  limit: number;
  bytes: number;
  /** Whether to start at the newest snapshot above `after` and not above `upTo`, if there is one. */
  snapshot: boolean;
}

/** A part of a log. All of it is of one moment. */
export interface Page {
  /** The end of the whole log, whatever was read of it. */
  end: End;
  /** The log's place in the order of opening. A log that is opened again under the same id has another. */
  place: string;
  snapshot?: Snapshot;
  entries: Entry[];
}

/** A question for one page of a listing. */
export interface Listing extends Omit<Filter, "after"> {
  /** "idle": by the time of the newest entry, the oldest first, and only rows before `idleBefore`. */
  order: "opened" | "idle";
  /** What the page before gave as `next`; in the order of opening also the place of a session. */
  after?: string;
  limit: number;
}

export interface Row extends Listed, End {
  place: string;
}

/** One page of a listing. It may hold rows that the filter excludes, and be empty though others follow. */
export interface Rows {
  rows: Row[];
  /** Where the next page begins; absent at the end. */
  next?: string;
  /**
   * The place of the newest session when the first page was made, as a text that sorts after the places of all others:
   * sessions opened later are left out. A driver without it must leave them out by itself.
   */
  newest?: string;
}

/** The time that a verb has. */
export interface Call {
  /** By `performance.now()`. The front answers the caller then, whether or not the driver has an answer. */
  readonly until: number;
  /** What keeps the driver waiting, if it knows: says more than the clock once the time is up. */
  reason?: unknown;
}

/** What the failure of a verb means. */
export interface Fault {
  code: ErrorCode;
  /** Goes after the driver's name: "has no room left". */
  message: string;
  /** "nothing": it is certain that nothing was changed. */
  effect: "nothing" | "unknown";
  /** Whether the same verb may succeed a moment later. */
  passing?: boolean;
  /** The longest pause before the next try, in milliseconds. By default it grows up to 500. */
  pause?: number;
  /** Whether one unit of a group is the reason, so that each is to be tried on its own. */
  single?: boolean;
  /** Kept as the cause of the error. Must not carry arguments, which may be secrets or whole bodies. */
  cause?: unknown;
}

/** How units are handed over. Without it, each as it comes, many at once. */
export type Groups =
  /** Each alone, and the next when the caller before it has continued. For drivers that answer at once. */
  | { of: "unit" }
  /** Units of the same moment together, up to so many commits and characters: of any sessions, one group at a time. */
  | { of: "store"; commits: number; bytes: number }
  /** The same with each session once, and so many groups at once. A session is in one of them at a time. */
  | { of: "sessions"; commits: number; bytes: number; lanes: number }
  /** Units of one session together, one group of each session at a time. A unit of several sessions is a group. */
  | { of: "session"; commits: number };

export interface Driver {
  /** For messages: "the SQLite store /data/runs.db". No secrets. */
  readonly name: string;
  /** Whether stored logs survive the process. */
  readonly persistent: boolean;
  /** Whether a unit may hold several writes. Adds cases to the shared suite. */
  readonly together: boolean;
  /** "utf8": the front escapes what UTF-8 text cannot hold: NUL and halves of surrogate pairs. */
  readonly text: "any" | "utf8";
  /** Whether `list` knows the order "idle". Otherwise the front reads all rows and sorts them. */
  readonly idle: boolean;
  /** "time": it compares the times of entries instead of marks, which tells fewer logs apart. The front gives it times only. */
  readonly marks?: "time";
  readonly groups?: Groups;
  /** Appends units, each whole or not at all, and answers for each. */
  append(units: readonly Unit[], call: Call): Answer<Appended[]>;
  /** Undefined if there is no such log. */
  read(session: string, range: Range, call: Call): Answer<Page | undefined>;
  list(listing: Listing, call: Call): Answer<Rows>;
  /** True if it deleted a log. With `end` only if the log ends there, checked and deleted in one step. */
  delete(session: string, end: End | undefined, call: Call): Answer<boolean>;
  /** Classifies an error of a verb. By default the store failed, and the effect is unknown. */
  fault?(thrown: unknown): Fault;
  /** Whether a verb whose time is up may take longer, because the server answers others. By default not. */
  overtime?(call: Call): boolean;
  /** By default the log is read until the key is found. */
  find?(session: string, key: string, call: Call): Answer<Entry | undefined>;
  /** The place of a session in the order of opening. By default its log is read. */
  place?(session: string, call: Call): Answer<string | undefined>;
  /** By default the open sessions are listed. */
  count?(environment: string, call: Call): Answer<number>;
  /** Called once, when no verb is running. */
  close?(): Answer<void>;
}

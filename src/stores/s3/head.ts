// The head of a session: the object with the end of its log. Every commit changes the head.
import { createHash, randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Appended, Heading, Snapshot } from "../../core/store.ts";
import type { End, Write } from "../front.ts";
import { timeMark, timeOfMark } from "../front/mark.ts";

/** A stored entry. `mark` is the id of its put, so that a writer in doubt can recognise its own put. */
export interface Kept {
  body: string;
  at: number;
  key?: string;
  mark: string;
}

/** An object of the log (level 0), or a page that lists objects, with its first and last version. */
export type Ref = [level: number, first: number, last: number];

/** A commit that takes effect only if its intent is committed. */
export interface Pending extends Pick<Summary, "life" | "order" | "version" | "touched" | "heading" | "chain"> {
  intent: string;
  entries: Kept[];
  snapshot?: Snapshot;
}

/** The row of a session in listings: the first line of the object. */
export interface Summary {
  session: string;
  /** A random id of each put. */
  mark: string;
  /** A random id of the log. A session that is deleted and opened again gets a new id. */
  life: string;
  /** The log's place in the order of opening. */
  order: string;
  /** 0: there is no log. */
  version: number;
  touched: number;
  heading: Heading;
  /** `VERSION:MARK`. It is outdated if the version is not the log's: older versions of Holdfast write no marks. */
  chain?: string;
  pending?: Omit<Pending, "entries" | "snapshot">;
}

export interface Head extends Omit<Summary, "pending"> {
  /** The log before `tail`, and the snapshots that are separate objects. */
  chunks: Ref[];
  snapshots: Ref[];
  /** The newest entries and snapshots. */
  tail: Kept[];
  fresh: Snapshot[];
  pending?: Pending;
}

const format = 1;
const nowhere: Heading = { environment: "", opened: 0 };

export function randomMark(): string {
  return randomBytes(9).toString("base64url");
}

/**
 * Returns a session's name in keys. Long ids, and ids with characters other than letters, digits, _ and -, are hashed.
 */
export function nameOf(session: string): string {
  if (/^[A-Za-z0-9_-]{1,128}$/.test(session)) return session;
  return `h.${createHash("sha256").update(session, "utf16le").digest("base64url")}`;
}

export function emptyHead(session: string): Head {
  const none = { mark: "", life: "", order: "", version: 0, touched: 0, heading: nowhere };
  return { session, ...none, chunks: [], snapshots: [], tail: [], fresh: [] };
}

/** Encodes a head. The first line has the row for listings, the second line the rest. */
export function encodeHead({ tail, fresh, chunks, snapshots, pending, ...summary }: Head): string {
  const [first, second] = [
    { format, ...summary },
    { chunks, snapshots, tail, fresh },
  ];
  if (!pending) return `${JSON.stringify(first)}\n${JSON.stringify(second)}`;
  const { entries, snapshot, ...brief } = pending;
  const rest = { ...second, pending: { entries, snapshot } };
  return `${JSON.stringify({ ...first, pending: brief })}\n${JSON.stringify(rest)}`;
}

export function decodeHead(text: string, what: string): Head {
  const end = text.indexOf("\n");
  const { pending: brief, ...summary } = decodeSummary(text.slice(0, end), what);
  const rest = parse(text.slice(end + 1), what) as Pick<Head, "chunks" | "snapshots" | "tail" | "fresh"> & {
    pending?: Pick<Pending, "entries" | "snapshot">;
  };
  const { pending, ...parts } = rest;
  return { ...summary, ...parts, ...(brief && pending && { pending: { ...brief, ...pending } }) };
}

export function decodeSummary(line: string, what: string): Summary {
  const { format: found, ...summary } = parse(line, what) as Summary & { format: number };
  if (typeof found === "number" && found > format) {
    const message = `${what} was written by a newer Holdfast (its format is ${found}, this version reads up to ${format})`;
    throw new HoldfastError("store_newer", `${message}; nothing was changed`);
  }
  if (found !== format || typeof summary.version !== "number") throw corrupt(what);
  return summary;
}

export function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw corrupt(what, cause);
  }
}

export function corrupt(what: string, cause?: unknown): HoldfastError {
  return new HoldfastError("store_corrupt", `${what} was not written by Holdfast; nothing was changed`, { cause });
}

/** Returns the end of a log, from its head or the start of it. */
export function endOf({ version, touched, chain }: Pick<Summary, "version" | "touched" | "chain">): End {
  const prefix = `${version}:`;
  return { version, mark: chain?.startsWith(prefix) ? chain.slice(prefix.length) : timeMark(touched) };
}

export function endsAt(head: Pick<Summary, "version" | "touched" | "chain">, { version, mark }: End): boolean {
  return head.version === version && (mark === "" || endOf(head).mark === mark);
}

/** Returns the answer for a write. `taken` returns whether the log has a key. */
export function judge(head: Head, { seen, entries }: Write, taken: (key: string) => boolean): Appended {
  if (entries.some(({ key }) => key !== undefined && taken(key))) return "duplicate";
  return endsAt(head, seen) ? "ok" : "conflict";
}

/** Returns an accepted write as a pending commit. If the write opens the log, `birth` gives its life and order. */
export function pendingOf(head: Head, write: Write, intent: string, mark: string, birth: Birth): Pending {
  const { life, order } = head.version === 0 ? birth : head;
  const entries = write.entries.map((entry): Kept => ({ ...entry, mark }));
  const version = head.version + entries.length;
  const pending: Pending = {
    intent,
    life,
    order,
    entries,
    version,
    touched: entries.at(-1)!.at,
    heading: write.heading ?? head.heading,
  };
  if (timeOfMark(write.mark) === undefined) pending.chain = `${version}:${write.mark}`;
  if (write.snapshot) pending.snapshot = write.snapshot;
  return pending;
}

export interface Birth {
  life: string;
  order: string;
}

/** Returns the head after the decision on its pending commit: with the commit or without it. */
export function settled({ pending, ...head }: Head, isCommitted: boolean): Head {
  if (!pending || !isCommitted) return head;
  const { life, order, version, touched, heading, chain, entries, snapshot } = pending;
  const tail = [...head.tail, ...entries];
  const fresh = snapshot === undefined ? head.fresh : [...head.fresh, snapshot];
  const next: Head = { ...head, life, order, version, touched, heading, tail, fresh };
  if (chain !== undefined) next.chain = chain;
  return next;
}

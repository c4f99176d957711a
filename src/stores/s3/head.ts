// The head of a session: the one object that says how far its log goes. What a commit changes, it changes here.
import { createHash, randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Appended, Commit, Heading, Snapshot } from "../../core/store.ts";

/** An entry as it is kept. `mark` is that of the put that brought it: it tells a writer in doubt whether it was its own. */
export interface Kept {
  body: string;
  at: number;
  key?: string;
  mark: string;
}

/** An object of the log, or a page that lists some: its level (0 is no page), and the first and last version it is about. */
export type Ref = [level: number, first: number, last: number];

/** A commit that counts only if its intent was decided so. */
export interface Pending {
  intent: string;
  life: string;
  order: string;
  version: number;
  touched: number;
  heading: Heading;
  entries: Kept[];
  snapshot?: Snapshot;
}

/** What a listing shows of a session; enough of it stands in the first line of the object. */
export interface Summary {
  session: string;
  /** Random, of each put. */
  mark: string;
  /** Random, of each log: one that is opened again under the same id is another. */
  life: string;
  /** Its place in the order of opening. */
  order: string;
  /** 0: there is no log, whatever else there is. */
  version: number;
  touched: number;
  heading: Heading;
  pending?: Pick<Pending, "intent" | "life" | "order" | "version" | "touched" | "heading">;
}

export interface Head extends Omit<Summary, "pending"> {
  /** The log up to where `tail` begins, and the snapshots that are objects of their own. */
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

/** What a session is called in keys. Ids that are more than letters and digits are hashed; the head has them in full. */
export function nameOf(session: string): string {
  if (/^[A-Za-z0-9_-]{1,128}$/.test(session)) return session;
  return `h.${createHash("sha256").update(session, "utf16le").digest("base64url")}`;
}

export function emptyHead(session: string): Head {
  const none = { mark: "", life: "", order: "", version: 0, touched: 0, heading: nowhere };
  return { session, ...none, chunks: [], snapshots: [], tail: [], fresh: [] };
}

/** The first line is what a listing needs; the second is the rest. */
export function encodeHead({ tail, fresh, chunks, snapshots, pending, ...summary }: Head): string {
  const brief = pending && {
    pending: {
      intent: pending.intent,
      life: pending.life,
      order: pending.order,
      version: pending.version,
      touched: pending.touched,
      heading: pending.heading,
    },
  };
  const rest = pending && { entries: pending.entries, snapshot: pending.snapshot };
  const first = JSON.stringify({ format, ...summary, ...brief });
  return `${first}\n${JSON.stringify({ chunks, snapshots, tail, fresh, ...(rest && { pending: rest }) })}`;
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
    const message = `${what} was written by a newer Holdfast (its format is ${found}, this one knows ${format})`;
    throw new HoldfastError("store_newer", `${message}; it was left untouched`);
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
  return new HoldfastError("store_corrupt", `${what} is not what Holdfast put there; it was left untouched`, { cause });
}

/** The answer to a commit. `taken` tells whether the log has a key. */
export function judge(head: Head, commit: Commit, taken: (key: string) => boolean): Appended {
  const { version, seen, entries, heading } = commit;
  const keys = entries.flatMap(({ key }) => key ?? []);
  if (new Set(keys).size < keys.length || keys.some(taken)) return "duplicate";
  if (head.version !== version) return "conflict";
  if (version > 0 && seen !== undefined && head.touched !== seen) return "conflict";
  if (version === 0 && heading === undefined) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  return "ok";
}

/** What a commit that was judged to be ok will have been. A log that it opens has this life and order. */
export function pendingOf(head: Head, commit: Commit, intent: string, mark: string, birth: Birth): Pending {
  const { life, order } = head.version === 0 ? birth : head;
  const entries = commit.entries.map(({ body, at, key }) => ({ body, at, ...(key !== undefined && { key }), mark }));
  return {
    intent,
    life,
    order,
    entries,
    version: head.version + entries.length,
    touched: entries.at(-1)!.at,
    heading: commit.heading === undefined ? head.heading : copyOf(commit.heading),
    ...(commit.snapshot && { snapshot: { ...commit.snapshot } }),
  };
}

export interface Birth {
  life: string;
  order: string;
}

/** The head with what was pending: as if it had been committed alone, and without if it was not. */
export function settled({ pending, ...head }: Head, isCommitted: boolean): Head {
  if (!pending || !isCommitted) return head;
  const { life, order, version, touched, heading, entries, snapshot } = pending;
  return {
    ...head,
    life,
    order,
    version,
    touched,
    heading,
    tail: [...head.tail, ...entries],
    fresh: snapshot === undefined ? head.fresh : [...head.fresh, snapshot],
  };
}

function copyOf({ environment, opened, parent, ended }: Heading): Heading {
  const copy: Heading = { environment, opened };
  if (parent) copy.parent = { session: parent.session, version: parent.version };
  if (ended) copy.ended = ended;
  return copy;
}

/** The caller may do with the one it gave what it likes. */
export function copyOfCommit({ session, version, seen, entries, heading, snapshot }: Commit): Commit {
  const copy: Commit = { session, version, entries: entries.map((entry) => ({ ...entry })) as Commit["entries"] };
  if (heading) copy.heading = { ...heading, ...(heading.parent && { parent: { ...heading.parent } }) };
  if (snapshot) copy.snapshot = { ...snapshot };
  if (seen !== undefined) copy.seen = seen;
  if (version === 0 && !heading) {
    throw new HoldfastError("invalid_option", "the commit of version 0 needs a heading");
  }
  return copy;
}

// The formats of the tiered store: tickets, log names, and the wrapper that older versions put around entries.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, Entry, Heading, NewEntry, Store } from "../../core/store.ts";
import { copyLog } from "../front/copy-log.ts";
import { markAfter, timeMark } from "../front/mark.ts";

/** The environment name for logs that are not sessions. They are neither counted nor listed. */
export const hidden = "holdfast:tier";
const prefix = "holdfast:tier:";
/** The prefix of logs with unchanged entries. Older versions added a line before the body. */
const asGiven = "!";
/** The key of the entry that ends an abandoned log. */
const leftKey = "holdfast:left";

/** A session's place: the newest entry in its ticket, a small log in the hot store. */
export type Ticket =
  /** `cold` is the cold log that the session moved back from, which is kept for a while. */
  | { place: "hot"; log: string; heading: Heading; cold?: string }
  | ({ place: "cold"; log: string; heading: Heading } & Omit<LogEnd, "mark"> & { mark?: string })
  /** The session was deleted. The ticket is kept for a while, so that a late opening does not restore the session. */
  | { place: "gone" }
  /** The session has no ticket: the log is older than the tiers, and is left where it is. */
  | { place: "plain"; version: number };

/** The end of a log, and the time of its newest entry. */
export interface LogEnd {
  version: number;
  mark: string;
  touched: number;
}

/** A session's place, read from its ticket. */
export interface Place {
  ticket: Ticket;
  /** The ticket's version, mark and time. */
  version: number;
  mark: string;
  at: number;
}

/** A ticket gets a snapshot after this many versions, so that a load skips older versions. */
const ticketReach = 8;

/** Parses the newest entry under the id of a session. */
export function placeIn({ version, body }: Entry, mark: string): Place {
  try {
    const { at, ...ticket } = (JSON.parse(body) ?? {}) as Partial<Record<string, unknown>>;
    const { place, log, type } = ticket;
    const isTicket =
      place === "gone" || ((place === "hot" || place === "cold") && typeof log === "string" && isLog(log));
    if (isTicket && type === undefined && typeof at === "number")
      return { ticket: ticket as unknown as Ticket, version, mark, at };
  } catch {
    // Invalid JSON is not a ticket either.
  }
  return { ticket: { place: "plain", version }, version: 0, mark: "", at: 0 };
}

export function logOf(place: Place | undefined): string | undefined {
  return place && "log" in place.ticket ? place.ticket.log : undefined;
}

/** Returns the commit that changes a ticket, if the ticket is unchanged. */
export function ticketCommit(
  session: string,
  place: Place | undefined,
  ticket: Ticket,
  at: number,
  shown?: Heading,
): Commit {
  const { version = 0, mark: seen = "" } = place ?? {};
  const entries: Commit["entries"] = [{ body: JSON.stringify({ ...ticket, at }), at }];
  return {
    session,
    version,
    seen,
    mark: markAfter(seen, entries),
    entries,
    heading: shown ?? { ...("heading" in ticket ? ticket.heading : { opened: 0 }), environment: hidden },
    // A load starts at this snapshot, and skips older versions of the ticket. The body is unused.
    ...(version > 0 && version % ticketReach === 0 && { snapshot: { version, body: "0" } }),
  };
}

/** Returns the place of a session after its ticket has changed. */
export function placeAfter({ version, mark = "", entries: [{ at }] }: Commit, ticket: Ticket): Place {
  return { ticket, version: version + 1, mark, at };
}

/** Returns a unique id for a log. It contains the id of the log that it was copied from. */
export function newLog(session: string, source?: string): string {
  const name = asGiven + randomBytes(9).toString("base64url");
  return `${prefix}${name}${source === undefined ? "" : `.${nameOf(source)}`}:${session}`;
}

function nameOf(log: string): string {
  return /^[^.:]*/.exec(log.slice(prefix.length))![0];
}

/** Returns whether a log is a copy of another log. A ticket can change to the copy only while it names the source. */
export function isCopyOf(log: string, source: string | undefined): boolean {
  return source !== undefined && log.slice(prefix.length).startsWith(`${nameOf(log)}.${nameOf(source)}:`);
}

export function isLog(id: string): boolean {
  return id.startsWith(prefix);
}

export function sessionOf(log: string): string {
  return log.slice(log.indexOf(":", prefix.length) + 1);
}

const isWrapped = (log: string): boolean => !log.startsWith(prefix + asGiven);

/** Converts a commit of a session for its log. */
export function toLog(log: string, commit: Commit): Commit {
  if (!isWrapped(log)) return { ...commit, session: log };
  const { version, seen = version === 0 ? "" : undefined } = commit;
  const mark = commit.mark ?? (seen === undefined ? undefined : markAfter(seen, commit.entries));
  const wrapped = { ...commit, session: log, entries: commit.entries.map(wrap) as Commit["entries"] };
  return mark === undefined ? wrapped : { ...wrapped, mark };
}

function wrap(entry: NewEntry): NewEntry {
  const { body, at, key } = entry;
  return { ...entry, body: `${JSON.stringify(key === undefined ? [at] : [at, key])}\n${body}` };
}

/** Returns the original entries of a log; undefined if the log was abandoned. */
export function fromLog(log: string, entries: Entry[]): Entry[] | undefined {
  const last = entries.at(-1);
  if (last && (last.key === leftKey || (isWrapped(log) && !last.body.includes("\n")))) return undefined;
  return isWrapped(log) ? entries.map(unwrap) : entries;
}

function unwrap({ version, body }: Entry): Entry {
  const end = body.indexOf("\n");
  try {
    const [at, key] = JSON.parse(body.slice(0, end)) as [at: number, key?: string];
    const entry: Entry = { version, body: body.slice(end + 1), at };
    return key === undefined ? entry : { ...entry, key };
  } catch (cause) {
    const message = `entry ${version} of a log in the tiered store has no valid first line; it is damaged, or another program wrote it`;
    throw new HoldfastError("store_corrupt", message, { cause });
  }
}

/** Returns the commit that ends an abandoned log, if the log is unchanged. Later writers are refused. */
export function leaving(log: string, { version, mark, touched }: LogEnd, heading: Heading): Commit {
  const entries: Commit["entries"] = [{ body: "left", at: touched, key: leftKey }];
  return { session: log, version, seen: mark, entries, heading: { ...heading, environment: hidden } };
}

/** Copies a log with all its snapshots under a new id; undefined if the log is missing or abandoned. */
export async function copyTo(to: Store, target: string, from: Store, source: string): Promise<LogEnd | undefined> {
  const end = await from.load(source);
  if (!end || !fromLog(source, end.entries)) return undefined;
  const snapshots = [];
  for (let { snapshot } = end; snapshot;) {
    snapshots.unshift(snapshot);
    snapshot = (await from.load(source, snapshot.version - 1))?.snapshot;
  }
  const { version: upTo, mark } = end;
  let touched = 0;
  const { version, refused } = await copyLog({
    from,
    source,
    to,
    target,
    upTo,
    mark,
    snapshots,
    heading: { environment: hidden, opened: 0 },
    ...(isWrapped(source) && { change: unwrap }),
    onCommit: (entries) => (touched = entries.at(-1)!.at),
  });
  if (refused) throw new HoldfastError("store_failed", `the target store refused the copy of a session: ${refused}`);
  return version === upTo ? { version, mark, touched } : undefined;
}

/** Returns the end of a cold log. Tickets of older versions have no mark. */
export function coldEnd({ version, touched, mark = timeMark(touched) }: Extract<Ticket, { place: "cold" }>): LogEnd {
  return { version, touched, mark };
}

export function lostLog(session: string): HoldfastError {
  const message = `the log of session ${JSON.stringify(session)} is missing from the store where it should be`;
  return new HoldfastError("store_corrupt", `${message}; restore that store, or delete the session`);
}

// How the tiered store keeps things: what a ticket says, the names of logs, and entries that older versions wrapped.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, Entry, Heading, NewEntry, Store } from "../../core/store.ts";
import { copyLog } from "../front/copy-log.ts";
import { markAfter, timeMark } from "../front/mark.ts";

/** The environment of logs that are not sessions: they are neither counted nor listed. */
export const hidden = "holdfast:tier";
const prefix = "holdfast:tier:";
/** Begins the names of logs whose entries are as they were given. Older versions wrote them with a line before the body. */
const asGiven = "!";
/** The key of the entry that ends a log which was left. */
const leftKey = "holdfast:left";

/** What the ticket of a session, a small log of its own in the hot store, says last: where the session is. */
export type Ticket =
  /** `cold` is the log that it came back from, which is kept for a while. */
  | { place: "hot"; log: string; heading: Heading; cold?: string }
  | ({ place: "cold"; log: string; heading: Heading } & Omit<LogEnd, "mark"> & { mark?: string })
  /** It was deleted. The ticket stays for a while, so that an opening that comes late does not bring the session back. */
  | { place: "gone" }
  /** It has no ticket: it is a log that was there before the tiers, and stays as and where it is. */
  | { place: "plain"; version: number };

/** Where a log ends, and the time of its newest entry. */
export interface LogEnd {
  version: number;
  mark: string;
  touched: number;
}

/** A session as its ticket has it. */
export interface Place {
  ticket: Ticket;
  /** Version and mark of the ticket, and when it was written. */
  version: number;
  mark: string;
  at: number;
}

/** After how many versions of a ticket those before are not read any more. */
const ticketReach = 8;

/** What the newest entry says that is stored under the id of a session. */
export function placeIn({ version, body }: Entry, mark: string): Place {
  try {
    const { at, ...ticket } = (JSON.parse(body) ?? {}) as Partial<Record<string, unknown>>;
    const { place, log, type } = ticket;
    const isTicket =
      place === "gone" || ((place === "hot" || place === "cold") && typeof log === "string" && isLog(log));
    if (isTicket && type === undefined && typeof at === "number")
      return { ticket: ticket as unknown as Ticket, version, mark, at };
  } catch {
    // Nor is what is no JSON.
  }
  return { ticket: { place: "plain", version }, version: 0, mark: "", at: 0 };
}

export function logOf(place: Place | undefined): string | undefined {
  return place && "log" in place.ticket ? place.ticket.log : undefined;
}

/** What makes a ticket say something else, if it is still as it was found. */
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
    // The body means nothing. A load starts here, and skips the older tickets.
    ...(version > 0 && version % ticketReach === 0 && { snapshot: { version, body: "0" } }),
  };
}

/** Where a session is once its ticket says so. */
export function placeAfter({ version, mark = "", entries: [{ at }] }: Commit, ticket: Ticket): Place {
  return { ticket, version: version + 1, mark, at };
}

/** The id of a log that nobody else will ever use. It names the one that it is a copy of. */
export function newLog(session: string, source?: string): string {
  const name = asGiven + randomBytes(9).toString("base64url");
  return `${prefix}${name}${source === undefined ? "" : `.${nameOf(source)}`}:${session}`;
}

function nameOf(log: string): string {
  return /^[^.:]*/.exec(log.slice(prefix.length))![0];
}

/** Whether a log is a copy of another. Only while the ticket names the source can it come to name the copy. */
export function isCopyOf(log: string, source: string | undefined): boolean {
  return source !== undefined && log.slice(prefix.length).startsWith(`${nameOf(log)}.${nameOf(source)}:`);
}

export function isLog(id: string): boolean {
  return id.startsWith(prefix);
}

/** The session that a log belongs to. */
export function sessionOf(log: string): string {
  return log.slice(log.indexOf(":", prefix.length) + 1);
}

const isWrapped = (log: string): boolean => !log.startsWith(prefix + asGiven);

/** A commit of a session as it is stored in its log. */
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

/** The entries of a log as they were given; undefined if the log was left. */
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
    throw new HoldfastError("store_corrupt", "an entry of the tiered store was not written by a tiered store", {
      cause,
    });
  }
}

/** Returns the commit that ends a log which is left, if the log is still as it was found. Later writers are refused. */
export function leaving(log: string, { version, mark, touched }: LogEnd, heading: Heading): Commit {
  const entries: Commit["entries"] = [{ body: "left", at: touched, key: leftKey }];
  return { session: log, version, seen: mark, entries, heading: { ...heading, environment: hidden } };
}

/** Copies a log with all its snapshots, under an id that nobody looks for yet. Undefined if it is gone or was left. */
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

/** Where a log in the cold store ends. Tickets of older versions have no mark. */
export function coldEnd({ version, touched, mark = timeMark(touched) }: Extract<Ticket, { place: "cold" }>): LogEnd {
  return { version, touched, mark };
}

export function lostLog(session: string): HoldfastError {
  const message = `the log of session ${JSON.stringify(session)} is missing from the store where it should be`;
  return new HoldfastError("store_corrupt", `${message}; restore that store, or delete the session`);
}

// How the tiered store keeps things: entries with what is needed to copy them, and what a ticket says.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Commit, Entry, Heading, NewEntry } from "../../core/store.ts";

/** The environment of what is no session: not counted, and not listed. */
export const hidden = "holdfast:tier";
const prefix = "holdfast:tier:";

/** What the ticket of a session, a small log of its own in the hot store, says last: where the session is. */
export type Ticket =
  /** `cold` is the log that it came back from, which is kept for a while. */
  | { place: "hot"; log: string; heading: Heading; cold?: string }
  | { place: "cold"; log: string; heading: Heading; version: number; touched: number }
  /** It was deleted. The ticket stays for a while, so that an opening that comes late does not bring the session back. */
  | { place: "gone" }
  /** It has no ticket: it is a log that was there before the tiers, and stays as and where it is. */
  | { place: "plain"; version: number };

/** A session as its ticket has it. */
export interface Place {
  ticket: Ticket;
  /** Of the ticket, and when it said so: after a delete versions begin again. */
  version: number;
  at: number;
}

/** After how many versions of a ticket those before are not read any more. */
const ticketReach = 8;

/** What the newest entry says that is stored under the id of a session. */
export function placeIn({ version, body }: Entry): Place {
  try {
    const { at, ...ticket } = (JSON.parse(body) ?? {}) as Partial<Record<string, unknown>>;
    const { place, log, type } = ticket;
    const isTicket =
      place === "gone" || ((place === "hot" || place === "cold") && typeof log === "string" && isLog(log));
    if (isTicket && type === undefined && typeof at === "number")
      return { ticket: ticket as unknown as Ticket, version, at };
  } catch {
    // Nor is what is no JSON.
  }
  return { ticket: { place: "plain", version }, version: 0, at: 0 };
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
  const version = place?.version ?? 0;
  return {
    session,
    version,
    ...(place && { seen: place.at }),
    entries: [{ body: JSON.stringify({ ...ticket, at }), at }],
    heading: shown ?? { ...("heading" in ticket ? ticket.heading : { opened: 0 }), environment: hidden },
    // Stands for nothing: what was said before is only not looked at again.
    ...(version > 0 && version % ticketReach === 0 && { snapshot: { version, body: "0" } }),
  };
}

/** Where a session is once its ticket says so. */
export function placeAfter({ version, entries: [{ at }] }: Commit, ticket: Ticket): Place {
  return { ticket, version: version + 1, at };
}

/** The id of a log that nobody else will ever use. It names the one that it is a copy of. */
export function newLog(session: string, source?: string): string {
  const name = randomBytes(9).toString("base64url");
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

/** With its time and key in a line before the body, as stores do not give those back. */
export function wrap({ body, at, key }: NewEntry): NewEntry {
  const head = JSON.stringify(key === undefined ? [at] : [at, key]);
  return { body: `${head}\n${body}`, at, ...(key !== undefined && { key }) };
}

/** The entry as it was given; undefined if it is the mark at the end of a log that was left. */
export function unwrap(entry: Entry): NewEntry | undefined {
  const end = entry.body.indexOf("\n");
  if (end < 0) return undefined;
  let head: [at: number, key?: string];
  try {
    head = JSON.parse(entry.body.slice(0, end)) as typeof head;
  } catch (cause) {
    throw new HoldfastError("store_corrupt", "an entry of a tiered store was not written by one", { cause });
  }
  return { body: entry.body.slice(end + 1), at: head[0], ...(head[1] !== undefined && { key: head[1] }) };
}

export function unwrapAll(entries: Entry[]): Entry[] {
  return entries.flatMap((entry) => {
    const given = unwrap(entry);
    return given ? [{ version: entry.version, body: given.body }] : [];
  });
}

/** What ends a log that is left, with a mark that refuses whoever still writes there; if it is still as it was found. */
export function leaving(
  log: string,
  { version, touched }: { version: number; touched: number },
  heading: Heading,
): Commit {
  const entries: Commit["entries"] = [{ body: "left", at: touched }];
  return { session: log, version, entries, heading: { ...heading, environment: hidden } };
}

export function lostLog(session: string): HoldfastError {
  const message = `the log of session ${JSON.stringify(session)} is not in the store that its ticket names, which has lost it`;
  return new HoldfastError("store_corrupt", `${message}; bring that store back as it was, or delete the session`);
}

/** A heading that nobody else holds. */
export function copyOf({ environment, opened, parent, ended }: Heading): Heading {
  return { environment, opened, ...(parent && { parent: { ...parent } }), ...(ended && { ended }) };
}

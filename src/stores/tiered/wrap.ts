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
  /** It was deleted. The ticket stays for a while, so that its versions do not begin again; `removed` if that is over. */
  | { place: "gone"; since: number; removed?: true }
  /** It has no ticket: it is a log that was there before the tiers, and stays as and where it is. */
  | { place: "plain" };

/** What the newest entry says that is stored under the id of a session. */
export function ticketIn(body: string): Ticket {
  try {
    const ticket = JSON.parse(body) as Partial<Record<string, unknown>> | null;
    const { place, log, since, type } = ticket ?? {};
    const isTicket = place === "gone" ? typeof since === "number" : place === "hot" || place === "cold";
    if (isTicket && type === undefined && (place === "gone" || (typeof log === "string" && isLog(log))))
      return ticket as unknown as Ticket;
  } catch {
    // Nor is what is no JSON.
  }
  return { place: "plain" };
}

/** A session as its ticket has it. */
export interface Place {
  ticket: Ticket;
  /** Of the ticket. */
  version: number;
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
  skipped = 0,
): Commit {
  return {
    session,
    version: place?.version ?? 0,
    entries: [
      ...Array.from({ length: skipped }, () => ({ body: "0", at })),
      { body: JSON.stringify(ticket), at },
    ] as unknown as Commit["entries"],
    heading: shown ?? { ...("heading" in ticket ? ticket.heading : { opened: 0 }), environment: hidden },
  };
}

/** The id of a log that nobody else will ever use. */
export function newLog(session: string): string {
  return `${prefix}${randomBytes(9).toString("base64url")}:${session}`;
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

/** The mark at the end of a log that was left: it refuses whoever still writes there. */
export function leaving(at: number): NewEntry {
  return { body: "left", at };
}

/** A heading that nobody else holds. */
export function copyOf({ environment, opened, parent, ended }: Heading): Heading {
  return { environment, opened, ...(parent && { parent: { ...parent } }), ...(ended && { ended }) };
}

// How the tiered store keeps things: entries with what is needed to copy them, and what a ticket says.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import type { Entry, Heading, NewEntry } from "../../core/store.ts";

/** The environment of what is no session: not counted, and not listed. */
export const hidden = "holdfast:tier";
const prefix = "holdfast:tier:";

/** What the ticket of a session, a small log of its own in the hot store, says last: where the session is. */
export type Ticket =
  | { place: "hot"; log: string; heading: Heading }
  | { place: "cold"; log: string; heading: Heading; version: number; touched: number }
  | { place: "gone"; since: number }
  /** It has no ticket: it is a log that was there before the tiers, and stays as and where it is. */
  | { place: "plain" };

const places = new Set<unknown>(["hot", "cold", "gone"]);

/** What the newest entry says that is stored under the id of a session. */
export function ticketIn(body: string): Ticket {
  try {
    const ticket = JSON.parse(body) as Ticket | null;
    if (places.has(ticket?.place) && !("type" in (ticket as object))) return ticket as Ticket;
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

// Lists sessions of the Postgres store page by page. Nothing stays open between two pages.
import type { EndReason } from "../../core/event.ts";
import type { Call, Listing, Row, Rows } from "../front.ts";
import { timeMark } from "../front/mark.ts";
import type { Run } from "./connections.ts";
import { doubleArray } from "./wire.ts";

interface Found {
  n: string;
  session: string;
  version: number;
  chain: string | null;
  environment: string;
  opened: number;
  parent: string | null;
  parent_version: number | null;
  ended: EndReason | null;
  touched: number;
  /** The stored time, which is never later than `touched`. */
  bound: number;
  newest: string;
}

export function createLister(run: Run, schema: string): (listing: Listing, call: Call) => Promise<Rows> {
  // If several locks are needed, they are taken in the order of ids, as in `append`.
  const move = `UPDATE ${schema}.sessions s SET touched = m.touched
    FROM (SELECT l.n, v.touched FROM (
      SELECT n FROM ${schema}.sessions WHERE n = ANY ($1::bigint[]) ORDER BY id FOR NO KEY UPDATE) l
      JOIN unnest($1::bigint[], $2::double precision[]) v (n, touched) ON v.n = l.n) m
    WHERE s.n = m.n AND s.touched < m.touched`;

  /** Reads a page of sessions that match the filter and a condition, in an order. */
  function rows(listing: Listing, condition: string, order: string, values: unknown[], call: Call): Promise<Found[]> {
    const { environment, open, openedBefore, limit } = listing;
    const conditions = [condition];
    const all = [...values];
    if (environment !== undefined) conditions.push(`s.environment = $${all.push(environment)}`);
    if (openedBefore !== undefined) conditions.push(`s.opened < $${all.push(openedBefore)}`);
    if (open !== undefined) conditions.push(open ? "s.ended IS NULL" : "s.ended IS NOT NULL");
    const text = `SELECT s.n, s.id AS session, s.environment, s.opened, s.parent, s.parent_version, s.ended,
        s.touched AS bound, e.version, e.chain, e.at AS touched, (SELECT max(n) FROM ${schema}.sessions) AS newest
      FROM ${schema}.sessions s CROSS JOIN LATERAL (
        SELECT version, at, chain FROM ${schema}.events WHERE session = s.n ORDER BY version DESC LIMIT 1) e
      WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ${limit}`;
    return run<Found>({ text }, all, call);
  }

  async function byOpening(listing: Listing, call: Call): Promise<Rows> {
    const found = await rows(listing, "s.n > $1", "s.n", [BigInt(listing.after ?? 0)], call);
    const next = found.length < listing.limit ? undefined : placeText(found.at(-1)!.n);
    return toPage(found, found, next);
  }

  /**
   * Reads sessions in the order of `sessions.touched` and updates outdated times. Returns the sessions whose true time
   * lies within the page. The others follow later, at their new place in the order.
   */
  async function byIdleness(listing: Listing, call: Call): Promise<Rows> {
    const { after, limit, idleBefore = Infinity } = listing;
    const [touched = "-Infinity", n = "0"] = after?.split(" ") ?? [];
    const condition = "s.touched < $1 AND (s.touched, s.n) > ($2, $3)";
    const found = await rows(listing, condition, "s.touched, s.n", [idleBefore, touched, n], call);
    const behind = found.filter((row) => row.bound !== row.touched);
    if (behind.length > 0) {
      const times = doubleArray(behind.map((row) => row.touched));
      await run({ text: move }, [`{${behind.map((row) => row.n).join()}}`, times], call);
    }
    const last = found.length < limit ? undefined : found.at(-1)!;
    const inPage = (row: Found): boolean =>
      last === undefined || row.touched < last.bound || (row.touched === last.bound && BigInt(row.n) <= BigInt(last.n));
    const given = found.filter(inPage).sort((a, b) => a.touched - b.touched || Number(a.n) - Number(b.n));
    return toPage(found, given, last && `${last.bound} ${last.n}`);
  }

  return (listing, call) => (listing.order === "opened" ? byOpening(listing, call) : byIdleness(listing, call));
}

/** Formats the place of a session as a string that sorts like the number. */
export function placeText(n: string): string {
  return n.padStart(19, "0");
}

function toPage(found: Found[], given: Found[], next: string | undefined): Rows {
  const page: Rows = { rows: given.map(toRow) };
  if (next !== undefined) page.next = next;
  if (found[0]) page.newest = placeText(found[0].newest);
  return page;
}

function toRow(found: Found): Row {
  const { n, session, version, chain, environment, opened, parent, parent_version, ended, touched } = found;
  const place = placeText(n);
  const row: Row = { session, version, mark: chain ?? timeMark(touched), touched, place, environment, opened };
  if (parent !== null && parent_version !== null) row.parent = { session: parent, version: parent_version };
  if (ended !== null) row.ended = ended;
  return row;
}

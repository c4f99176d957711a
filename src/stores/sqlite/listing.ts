// Lists sessions of the SQLite store page by page. Nothing stays open between two pages.
import type { EndReason } from "../../core/event.ts";
import type { Listing, Row, Rows } from "../front.ts";
import { timeMark } from "../front/mark.ts";
import type { Database, Statement, Value } from "./file.ts";
import { anyText, toText, toValue, wholeText } from "./text.ts";

interface Found {
  n: number;
  session: string | Uint8Array;
  version: number;
  chain: string | null;
  environment: string | Uint8Array;
  opened: number;
  parent: string | Uint8Array | null;
  parentVersion: number | null;
  ended: EndReason | null;
  touched: number;
  /** The stored time, which is never later than `touched`. */
  bound: number;
}

/** Creates the driver's `list`. `writing` runs a function in a transaction. */
export function createLister(database: Database, writing: <T>(work: () => T) => T): (listing: Listing) => Rows {
  const newest = database.prepare("SELECT max(n) AS n FROM sessions");
  const touch = database.prepare("UPDATE sessions SET touched = ? WHERE n = ?");
  const statements = new Map<string, Statement>();

  /** Reads a page of sessions that match the filter and a condition, in an order. */
  function rows(listing: Listing, condition: string, order: string, values: Value[]): Found[] {
    const { environment, open, openedBefore, limit } = listing;
    const conditions = [condition];
    const all = [...values];
    if (environment !== undefined) {
      conditions.push(`s.environment = ${anyText}`);
      all.push(toValue(environment));
    }
    if (openedBefore !== undefined) {
      conditions.push("s.opened < ?");
      all.push(openedBefore);
    }
    if (open !== undefined) conditions.push(open ? "s.ended IS NULL" : "s.ended IS NOT NULL");
    // CROSS JOIN prevents SQLite from starting with the events.
    const sql = `SELECT s.n, ${wholeText("s.id")} AS session, ${wholeText("s.environment")} AS environment, s.opened,
        ${wholeText("s.parent")} AS parent, s.parentVersion, s.ended,
        s.touched AS bound, e.version, e.chain, e.at AS touched
      FROM sessions s CROSS JOIN events e
      ON e.session = s.n AND e.version = (SELECT max(version) FROM events WHERE session = s.n)
      WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    let statement = statements.get(sql);
    if (!statement) statements.set(sql, (statement = database.prepare(sql)));
    return statement.all(...all, limit) as Found[];
  }

  function byOpening(listing: Listing): Omit<Rows, "newest"> {
    const found = rows(listing, "s.n > ?", "s.n", [Number(listing.after ?? 0)]);
    const last = found.length < listing.limit ? undefined : found.at(-1)!;
    return { rows: found.map(toRow), ...(last && { next: placeText(last.n) }) };
  }

  /**
   * Reads sessions in the order of `sessions.touched` and updates outdated times. Returns the sessions whose true time
   * lies within the page. The others follow later, at their new place in the order.
   */
  function byIdleness(listing: Listing): Omit<Rows, "newest"> {
    const { after, limit, idleBefore = Infinity } = listing;
    const [touched = -Infinity, n = 0] = after?.split(" ").map(Number) ?? [];
    const condition = "s.touched < ? AND (s.touched, s.n) > (?, ?)";
    const found = rows(listing, condition, "s.touched, s.n", [idleBefore, touched, n]);
    const behind = found.filter((row) => row.bound !== row.touched);
    if (behind.length > 0) writing(() => behind.forEach((row) => touch.run(row.touched, row.n)));
    const last = found.length < limit ? undefined : found.at(-1)!;
    const inPage = (row: Found): boolean =>
      last === undefined || row.touched < last.bound || (row.touched === last.bound && row.n <= last.n);
    const given = found.filter(inPage).sort((a, b) => a.touched - b.touched || a.n - b.n);
    return { rows: given.map(toRow), ...(last && { next: `${last.bound} ${last.n}` }) };
  }

  return (listing) => {
    const { n } = newest.get() as { n: number | null };
    const page = listing.order === "opened" ? byOpening(listing) : byIdleness(listing);
    return { ...page, newest: placeText(n ?? 0) };
  };
}

/** Formats a place as a string that sorts like the number. */
export function placeText(n: number): string {
  return String(n).padStart(16, "0");
}

function toRow(found: Found): Row {
  const { n, version, chain, opened, parent, parentVersion, ended, touched } = found;
  const row: Row = {
    session: toText(found.session),
    version,
    mark: chain ?? timeMark(touched),
    touched,
    place: placeText(n),
    environment: toText(found.environment),
    opened,
  };
  if (parent !== null && parentVersion !== null) row.parent = { session: toText(parent), version: parentVersion };
  if (ended !== null) row.ended = ended;
  return row;
}

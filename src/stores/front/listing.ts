// Lists sessions page by page. Applies the filter, omits sessions opened in the meantime, and lists no session twice.
import { HoldfastError, invalidOption } from "../../core/errors.ts";
import type { Filter, Listed } from "../../core/store.ts";
import type { Driver, Listing, Row, Rows } from "./driver.ts";
import { copyHeading } from "./unit.ts";

/** Pages start small, for callers that need only the first rows. */
const [firstPage, largestPage] = [4, 256];

export interface ListingParts {
  driver: Driver;
  assertOpen(): void;
  page(listing: Listing): Promise<Rows>;
  /** Returns the place of a session in the order of opening; undefined if it is missing. */
  placeOf(session: string): Promise<string | undefined>;
}

/** The store's `list`. */
export function createListing({ driver, assertOpen, page, placeOf }: ListingParts) {
  /** Yields rows in the driver's order, without sessions opened after the first page. */
  async function* rowsOf(asked: Omit<Listing, "limit">): AsyncGenerator<Row> {
    let newest: string | undefined;
    let after = asked.after;
    for (let limit = firstPage; ; limit = Math.min(4 * limit, largestPage)) {
      const { rows, next, newest: last } = await page({ ...asked, limit, ...(after !== undefined && { after }) });
      newest ??= last;
      for (const row of rows) {
        if (newest === undefined || row.place <= newest) yield row;
        else if (asked.order === "opened") return;
      }
      if (next === undefined) return;
      if (next === after)
        throw new HoldfastError("store_failed", `${driver.name} returned the same page of a listing twice`);
      after = next;
    }
  }

  async function* byOpening(filter: Filter): AsyncGenerator<Row> {
    const { after: session, ...asked } = filter;
    const after = session === undefined ? undefined : await placeOf(session);
    if (session !== undefined && after === undefined) throw unknownCursor(session);
    yield* rowsOf({ ...asked, order: "opened", ...(after !== undefined && { after }) });
  }

  /** Lists by idle time. A commit moves a session towards the end. A session is listed only where it is found first. */
  async function* byIdleness(filter: Filter): AsyncGenerator<Row> {
    if (!driver.idle) {
      const rows: Row[] = [];
      for await (const row of byOpening({ ...filter })) if (matches(row, filter)) rows.push(row);
      yield* rows.sort((a, b) => a.touched - b.touched);
      return;
    }
    const shown = new Set<string>();
    for await (const row of rowsOf({ ...filter, order: "idle" })) {
      if (shown.has(row.place)) continue;
      shown.add(row.place);
      yield row;
    }
  }

  return async function* list(filter: Filter): AsyncGenerator<Listed> {
    assertOpen();
    assertCursor(filter);
    for await (const row of filter.idleBefore === undefined ? byOpening(filter) : byIdleness(filter)) {
      // Stops if the store was closed while the page was read, or while the caller had the row.
      assertOpen();
      if (matches(row, filter)) yield toListed(row);
      assertOpen();
    }
  };
}

/** Refuses a cursor when listing by idle time. */
export function assertCursor({ after, idleBefore }: Filter): void {
  if (after === undefined || idleBefore === undefined) return;
  throw invalidOption("`after` cannot be combined with `idleBefore`: it works only for lists sorted by opening time");
}

export function unknownCursor(session: string): HoldfastError {
  const message = `cannot list the sessions after ${JSON.stringify(session)}: that session does not exist`;
  return new HoldfastError("session_not_found", message);
}

export function matches({ environment, ended, opened, touched }: Listed, filter: Filter): boolean {
  if (filter.environment !== undefined && environment !== filter.environment) return false;
  if (filter.open !== undefined && (ended === undefined) !== filter.open) return false;
  if (filter.openedBefore !== undefined && opened >= filter.openedBefore) return false;
  return filter.idleBefore === undefined || touched < filter.idleBefore;
}

function toListed(row: Row): Listed {
  const { session, version, touched } = row;
  return { session, version, touched, ...copyHeading(row) };
}

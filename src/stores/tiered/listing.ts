// Lists the tiered store's sessions from the hot store alone, which has a ticket for every session.
import type { Filter, Listed, Store } from "../../core/store.ts";
import { assertCursor, unknownCursor } from "../front/listing.ts";
import { copyHeading } from "../front/unit.ts";
import type { Places } from "./places.ts";
import { hidden, isLog, lostLog, sessionOf } from "./tickets.ts";

export function createListing(hot: Store, { find, endOf }: Places, assertOpen: () => void) {
  /** Returns a session's current row. `listed` is the row that the hot store has under its id. */
  async function rowOf(session: string, listed?: Listed): Promise<Listed | undefined> {
    for (let missed: string | undefined; ;) {
      const place = await find(session);
      if (!place || place.ticket.place === "gone") return undefined;
      const { ticket } = place;
      if (ticket.place === "plain") return listed;
      if (ticket.place === "cold") {
        return { session, version: ticket.version, touched: ticket.touched, ...copyHeading(ticket.heading) };
      }
      const end = await endOf(ticket.log);
      if (!end && ticket.log === missed) throw lostLog(session);
      if (!end) missed = ticket.log;
      // If the ticket is unchanged, it and the log were read at the same moment.
      if (end && (await find(session))?.version === place.version) {
        return { session, version: end.version, touched: end.touched, ...copyHeading(ticket.heading) };
      }
    }
  }

  async function* inOrderOfOpening(filter: Filter): AsyncGenerator<Listed> {
    const { environment, open, ...rest } = filter;
    const place = filter.after === undefined ? undefined : await find(filter.after);
    if (filter.after !== undefined && (!place || place.ticket.place === "gone")) throw unknownCursor(filter.after);
    for await (const listed of hot.list(rest)) {
      const row = isLog(listed.session) ? undefined : await rowOf(listed.session, listed);
      if (!row || (environment !== undefined && row.environment !== environment)) continue;
      if (open === undefined || (row.ended === undefined) === open) yield row;
    }
  }

  /**
   * The hot store lists the logs of hot sessions and the tickets of cold sessions by the time of their newest entry. A
   * session that moves in the meantime may be missing. So the hot store is listed until there are no new rows, and all
   * rows are sorted.
   */
  async function* inOrderOfIdleness(filter: Filter): AsyncGenerator<Listed> {
    const found = new Map<string, Listed>();
    for (let before = -1; found.size > before;) {
      before = found.size;
      for await (const listed of hot.list(filter)) {
        const { session, environment } = listed;
        if (environment !== hidden) found.set(isLog(session) ? sessionOf(session) : session, listed);
      }
    }
    for (const [session, listed] of [...found].sort((a, b) => a[1].touched - b[1].touched)) {
      const row = await rowOf(session, listed);
      // A session that was touched in the meantime has a different place in this order.
      if (row?.touched === listed.touched) yield row;
    }
  }

  return async function* listing(filter: Filter): AsyncGenerator<Listed> {
    assertOpen();
    assertCursor(filter);
    for await (const row of filter.idleBefore === undefined ? inOrderOfOpening(filter) : inOrderOfIdleness(filter)) {
      yield row;
      assertOpen();
    }
  };
}

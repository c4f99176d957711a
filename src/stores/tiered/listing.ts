// Lists sessions of the tiered store from the hot store alone, which has a ticket of every session.
import { HoldfastError } from "../../core/errors.ts";
import type { Filter, Listed, Store } from "../../core/store.ts";
import { copyHeading } from "../front/unit.ts";
import type { LogEnd, Place } from "./wrap.ts";
import { hidden, isLog, lostLog, sessionOf } from "./wrap.ts";

export interface Access {
  hot: Store;
  /** Returns the current place of a session. */
  find(session: string): Promise<Place | undefined>;
  endOf(log: string): Promise<LogEnd | undefined>;
  assertOpen(): void;
}

export function createListing({ hot, find, endOf, assertOpen }: Access) {
  /** Returns the row of a session as it is now. `listed` is the row that the hot store has under its id. */
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
      // Both at the same moment.
      if (end && (await find(session))?.version === place.version) {
        return { session, version: end.version, touched: end.touched, ...copyHeading(ticket.heading) };
      }
    }
  }

  async function* inOrderOfOpening(filter: Filter): AsyncGenerator<Listed> {
    const { environment, open, ...rest } = filter;
    const place = filter.after === undefined ? undefined : await find(filter.after);
    if (filter.after !== undefined && (!place || place.ticket.place === "gone")) {
      const message = `cannot list after session ${JSON.stringify(filter.after)}: it does not exist`;
      throw new HoldfastError("session_not_found", message);
    }
    for await (const listed of hot.list(rest)) {
      const row = isLog(listed.session) ? undefined : await rowOf(listed.session, listed);
      if (!row || (environment !== undefined && row.environment !== environment)) continue;
      if (open === undefined || (row.ended === undefined) === open) yield row;
    }
  }

  /**
   * The hot store lists the logs of hot sessions and the tickets of cold ones, each by the time of its newest entry. A
   * session that moves meanwhile may be missing. So the store is listed until there are no new rows, which are then sorted.
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
      // A session that was touched meanwhile has another place in this order.
      if (row?.touched === listed.touched) yield row;
    }
  }

  async function* listing(filter: Filter): AsyncGenerator<Listed> {
    assertOpen();
    if (filter.idleBefore !== undefined && filter.after !== undefined) {
      throw new HoldfastError(
        "invalid_option",
        "`after` cannot be combined with `idleBefore`, because it follows the order of opening",
      );
    }
    for await (const row of filter.idleBefore === undefined ? inOrderOfOpening(filter) : inOrderOfIdleness(filter)) {
      yield row;
      assertOpen();
    }
  }

  return listing;
}

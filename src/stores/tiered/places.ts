// The places of sessions in a tiered store: reads their tickets, and caches them.
import { dropOldest } from "../../core/drop-oldest.ts";
import type { Entry, Store } from "../../core/store.ts";
import { fromLog, isLog, placeIn, type LogEnd, type Place } from "./tickets.ts";

const remembered = 50_000;
/** Milliseconds for which a place is cached. */
const rememberedFor = 600_000;

export type Places = ReturnType<typeof createPlaces>;

export function createPlaces(hot: Store) {
  const places = new Map<string, { place: Place; since: number }>();

  /**
   * Caches a place that was correct at some time after `since`. An older answer never replaces a newer one; otherwise a
   * commit could go to an abandoned log.
   */
  function remember(session: string, place: Place | undefined, since: number): void {
    if ((places.get(session)?.since ?? since) > since) return;
    places.delete(session);
    if (!place) return;
    places.set(session, { place, since });
    dropOldest(places, remembered);
  }

  /** Returns a session's cached place in the hot store. The session may have moved since. */
  function known(session: string): Place | undefined {
    const found = places.get(session);
    const isGood = found?.place.ticket.place === "hot" && performance.now() - found.since < rememberedFor;
    return isGood ? found.place : undefined;
  }

  async function newestOf(id: string): Promise<{ entry: Entry; mark: string } | undefined> {
    const found = await hot.load(id);
    if (!found) return undefined;
    const entry = found.entries.at(-1) ?? (await hot.read(id, found.version - 1, 1))?.[0];
    return entry && { entry, mark: found.mark };
  }

  /** Returns where a session is now. */
  async function find(session: string): Promise<Place | undefined> {
    if (isLog(session)) return undefined;
    const since = performance.now();
    const newest = await newestOf(session);
    const place = newest && placeIn(newest.entry, newest.mark);
    remember(session, place, since);
    return place;
  }

  /** Returns the end of a log in the hot store; undefined if the log was abandoned or is missing. */
  async function endOf(log: string): Promise<LogEnd | undefined> {
    const newest = await newestOf(log);
    const [entry] = (newest && fromLog(log, [newest.entry])) ?? [];
    return entry && { version: entry.version, mark: newest!.mark, touched: entry.at };
  }

  return { find, known, remember, endOf };
}

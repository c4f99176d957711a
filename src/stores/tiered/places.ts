// Where the sessions of a tiered store are: what their tickets say, and what of it a process remembers.
import type { Store } from "../../core/store.ts";
import type { Place } from "./wrap.ts";
import { isLog, ticketIn } from "./wrap.ts";

const remembered = 50_000;
/** How long a place is remembered, in milliseconds: far shorter than the ticket of a deleted session stays. */
const rememberedFor = 600_000;

export function createPlaces(hot: Store) {
  const places = new Map<string, { place: Place; since: number }>();

  function remember(session: string, place: Place | undefined): void {
    places.delete(session);
    if (place?.ticket.place !== "hot") return;
    if (places.size >= remembered) places.delete(places.keys().next().value!);
    places.set(session, { place, since: performance.now() });
  }

  /** Where a session was when it was last looked for. It may have moved since. */
  function known(session: string): Place | undefined {
    const found = places.get(session);
    return found && performance.now() - found.since < rememberedFor ? found.place : undefined;
  }

  /** Where a session is now. */
  async function find(session: string): Promise<Place | undefined> {
    if (isLog(session)) return undefined;
    const found = await hot.load(session);
    let last = found?.entries.at(-1);
    // One without a ticket may have a snapshot of its newest version.
    if (found?.snapshot && !last) [last] = (await hot.read(session, found.snapshot.version - 1, 1)) ?? [];
    const ticket = last && ticketIn(last.body);
    const place = ticket && { ticket, version: ticket.place === "plain" ? 0 : last!.version };
    remember(session, place);
    return place;
  }

  return { find, known, remember };
}

// copyLog(): copies a session's log into an empty store, event by event, with the same versions.
import type { NumberedEvent } from "../../core/event.ts";
import type { NewEntry, Store } from "../../core/store.ts";

/** Omits keys, so a verdict in the copy can be read but is not returned again. */
export async function copyLog(store: Store, session: string, events: NumberedEvent[]): Promise<void> {
  const [first] = events;
  if (first?.type !== "session.opened") return;
  const entries = events.map((event): NewEntry => ({ body: toBody(event), at: event.at }));
  await store.append({
    session,
    version: 0,
    entries: entries as [NewEntry, ...NewEntry[]],
    heading: { environment: first.environment, opened: first.at },
  });
}

function toBody(numbered: NumberedEvent): string {
  const { version: _, ...event } = numbered;
  return JSON.stringify(event);
}

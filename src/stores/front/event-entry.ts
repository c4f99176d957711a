// Reads entries of stores that keep only an entry's body.
import type { Event } from "../../core/event.ts";
import { eventKey } from "../../core/event-key.ts";
import type { Entry } from "./driver.ts";

/** Returns an entry with the time and the key from its event. */
export function eventEntry(version: number, body: string): Entry {
  const entry: Entry = { version, body, at: 0 };
  try {
    const event = JSON.parse(body) as Event;
    if (typeof event.at === "number") entry.at = event.at;
    const key = eventKey(event);
    if (key !== undefined) entry.key = key;
  } catch {
    // The body is not an event of Holdfast.
  }
  return entry;
}

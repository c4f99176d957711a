// The log of a conversation as far as it is known here: events come from two sides, and each counts once.
import type { NumberedEvent } from "../../../../src/core/event.ts";

export interface EventLog {
  /** All up to the newest, in order. */
  events: NumberedEvent[];
  /** Those that came before the ones ahead of them. */
  early: NumberedEvent[];
}

export const emptyLog: EventLog = { events: [], early: [] };

/** The same log if nothing of it is new. */
export function withEvents(log: EventLog, fresh: NumberedEvent[]): EventLog {
  const unknown = fresh.filter(({ version }) => version > log.events.length);
  if (unknown.length === 0) return log;
  const waiting = [...log.early, ...unknown].sort((a, b) => a.version - b.version);
  const events = [...log.events];
  const early: NumberedEvent[] = [];
  for (const event of waiting) {
    if (event.version === events.length + 1) events.push(event);
    else if (event.version > events.length && event.version !== early.at(-1)?.version) early.push(event);
  }
  return { events, early };
}

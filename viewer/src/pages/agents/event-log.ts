// The known part of a conversation's log. Events arrive from two streams; each is added once.
import type { NumberedEvent } from "../../../../src/core/event.ts";

export interface EventLog {
  /** Without gaps, oldest first. */
  events: NumberedEvent[];
  /** Events that arrived before their predecessors. */
  early: NumberedEvent[];
}

export const emptyLog: EventLog = { events: [], early: [] };

/** Adds events. Returns the same log if none is new. */
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

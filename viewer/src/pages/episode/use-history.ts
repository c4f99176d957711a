// useHistory(): the states of a log that may still grow.
import { useRef } from "preact/hooks";
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { createHistory, type History } from "./history.ts";

/** Extends the previous history if the new list starts with the same events. */
export function useHistory(events: NumberedEvent[]): History {
  const known = useRef<{ events: NumberedEvent[]; history: History } | undefined>(undefined);
  const before = known.current;
  const last = before?.events.at(-1);
  const goesOn = before && (last === undefined || events[before.events.length - 1] === last);
  const history = goesOn ? before.history : createHistory();
  if (events.length > history.length) history.append(events.slice(history.length));
  known.current = { events, history };
  return history;
}

// currentVerdict(): the newest verdict of a session, if the state has not changed since.
import { isAside, type EventOf, type NumberedEvent } from "../../../../src/core/event.ts";
import { isVerdict } from "../episode/event-kinds.ts";

/** `events` are the newest events of a log. */
export function currentVerdict(events: readonly NumberedEvent[]): EventOf<"session.verified"> | undefined {
  const newest = events.findLast(isVerdict);
  const changed = events.findLast((event) => !isAside(event) && event.type !== "session.closed");
  return newest && newest.judged >= (changed?.version ?? 0) ? newest : undefined;
}

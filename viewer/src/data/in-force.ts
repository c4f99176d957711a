// Which events of a log count still, and which a rewind took back.
import type { NumberedEvent } from "../../../src/core/event.ts";
import { isInForce } from "../../../src/core/session.ts";

/** Says of a version whether it is part of what the session is now. */
export function inForceIn(events: readonly NumberedEvent[]): (version: number) => boolean {
  const rewinds = events.flatMap((event) =>
    event.type === "session.rewound" ? [{ at: event.version, to: event.to }] : [],
  );
  return (version) => isInForce({ version: events.length, rewinds }, version);
}

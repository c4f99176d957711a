// Forks conversations: after which step, and at which version.
import { HoldfastError } from "../../core/errors.ts";
import type { NumberedEvent } from "../../core/event.ts";
import type { Origin, Rollout } from "../../core/rollout.ts";

/** True for answers to the player's own calls, not to those of an agent used as a tool or running in parallel. */
function isStep(event: NumberedEvent): boolean {
  return event.type === "tools.answered" && event.branch === undefined && !event.path.includes("#");
}

/** Returns the index of the n-th step, from 1, or -1 if it does not exist yet. */
function findStep(step: number, events: readonly NumberedEvent[]): number {
  let count = 0;
  return events.findIndex((event) => isStep(event) && ++count === step);
}

/** Tells whether the conversation has reached its fork. */
export function isAtFork({ forkAfter }: Rollout, events: readonly NumberedEvent[]): boolean {
  return forkAfter !== undefined && findStep(forkAfter, events) >= 0;
}

/** Returns the version to fork a conversation at, given all of its events. */
export function versionAfter({ conversation, step }: Origin, events: readonly NumberedEvent[]): number {
  const version = events[findStep(step, events)]?.version;
  if (version !== undefined) return version;
  throw new HoldfastError("session_not_found", `the conversation ${conversation} has no step ${step} to fork after`);
}

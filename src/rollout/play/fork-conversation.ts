// Forks conversations: stops one where it is forked, and builds the start of a continuation.
import type { AgentSessions, AgentState, Entered, SavedSession } from "../../core/agent-sessions.ts";
import { changed, replaceState } from "../../core/delta.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { Event, NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import type { Origin, Rollout } from "../../core/rollout.ts";
import { withCommit } from "../../agent/guarded-session.ts";

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

/**
 * Wraps sessions so that a run stops at the commit of a step, before the model is asked again. No event follows it in
 * the log. Also returns a function that tells whether it stopped.
 */
export function restingAfter(sessions: AgentSessions, step: number, rest: () => void): [AgentSessions, () => boolean] {
  let isAt = false;
  const guard = (entered: Entered): Entered =>
    withCommit(entered, async (event, change) => {
      const committed = await entered.commit(event, change);
      if (isStep(committed) && findStep(step, entered.steps) >= 0) {
        isAt = true;
        rest();
      }
      return committed;
    });
  const enter: AgentSessions["enter"] = async (...given) => guard(await sessions.enter(...given));
  return [{ ...sessions, enter }, () => isAt];
}

/** Returns the conversation up to the fork, with the state that finds the continuation's own episode. */
export function branchedOff(
  events: NumberedEvent[],
  { conversation, step }: Origin,
  state: AgentState,
): Omit<SavedSession, "app"> {
  const [opened, ...rest] = events.slice(0, findStep(step, events) + 1).map(withoutVersion);
  if (opened?.type !== "session.opened") {
    throw new HoldfastError(
      "session_not_found",
      `the conversation ${conversation} has no step ${step} to fork it after`,
    );
  }
  const began = changed(null, opened.delta ?? []) as AgentState;
  const first: Event = { ...opened, delta: replaceState({ ...began, ...state } as Json) };
  const user = String(opened.labels?.["user"]);
  return { session: conversation, user, shared: {}, events: [first, ...rest] };
}

function withoutVersion(numbered: NumberedEvent): Event {
  const { version: _, ...event } = numbered;
  return event as Event;
}

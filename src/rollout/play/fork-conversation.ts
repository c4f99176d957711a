// Conversations that are forked: where one stops to be forked, and what a continuation begins with.
import type { AgentSessions, AgentState, Entered, SavedSession } from "../../core/agent-sessions.ts";
import { changed, replaceState } from "../../core/delta.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { Event, NumberedEvent } from "../../core/event.ts";
import type { Json } from "../../core/json.ts";
import type { Origin, Rollout } from "../../core/rollout.ts";
import { withCommit } from "../../agent/guarded-session.ts";

/** Whether the player's own calls were answered: not those of an agent that is its tool, or that runs beside others. */
function isStep(event: NumberedEvent): boolean {
  return event.type === "tools.answered" && event.branch === undefined && !event.path.includes("#");
}

/** Where the step of that number is, from 1; -1 if it was not made yet. */
function placeOf(step: number, events: readonly NumberedEvent[]): number {
  let count = 0;
  return events.findIndex((event) => isStep(event) && ++count === step);
}

/** Whether the conversation has come to where it is forked. */
export function isAtFork({ forkAfter }: Rollout, events: readonly NumberedEvent[]): boolean {
  return forkAfter !== undefined && placeOf(forkAfter, events) >= 0;
}

/**
 * Sessions on which a run is told to rest with the commit of a step, before the model is asked again: nothing comes after it
 * in the log. And whether it was.
 */
export function restingAfter(sessions: AgentSessions, step: number, rest: () => void): [AgentSessions, () => boolean] {
  let isAt = false;
  const guard = (entered: Entered): Entered =>
    withCommit(entered, async (event, change) => {
      const committed = await entered.commit(event, change);
      if (isStep(committed) && placeOf(step, entered.steps) >= 0) {
        isAt = true;
        rest();
      }
      return committed;
    });
  const enter: AgentSessions["enter"] = async (...given) => guard(await sessions.enter(...given));
  return [{ ...sessions, enter }, () => isAt];
}

/** What a conversation was when it was forked, with the state that finds the continuation's own episode. */
export function branchedOff(
  events: NumberedEvent[],
  { conversation, step }: Origin,
  state: AgentState,
): Omit<SavedSession, "app"> {
  const [opened, ...rest] = events.slice(0, placeOf(step, events) + 1).map(withoutVersion);
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

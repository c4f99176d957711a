// The log of an episode, as its store has it.
import type { Event, NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { decode } from "../core/session.ts";
import type { Store } from "../core/store.ts";

/** Whether a log is of an environment. Conversations, and what a server keeps, such as its keys, have names that none can have. */
export function isOfEnvironment({ environment }: { environment: string }): boolean {
  return !environment.includes(":");
}

/** Undefined if the store has no such session. A row may come from anybody, and name what is no episode: that is not one. */
export async function logOf(store: Store, session: string): Promise<NumberedEvent[] | undefined> {
  const entries = await store.read(session, 0);
  const events = entries?.map(({ version, body }) => ({ ...decode<Event>(body, session), version }));
  const [first] = events ?? [];
  return first?.type === "session.opened" && isOfEnvironment(first) ? events : undefined;
}

/** The same, and of a session that was forked what its parents' logs have up to there before it, with their versions. */
export async function logWithParents(
  store: Store,
  session: string,
  until = Infinity,
): Promise<NumberedEvent[] | undefined> {
  const events = (await logOf(store, session))?.filter(({ version }) => version <= until);
  const [first, ...rest] = events ?? [];
  if (first?.type !== "session.opened" || !first.parent) return events;
  const before = await logWithParents(store, first.parent.session, first.parent.version);
  return before ? [...before, ...rest] : events;
}

type CallEvent = Extract<NumberedEvent, { type: "tool.called" | "tool.settled" }>;

/**
 * Finds the event of each call of a transcript, in the transcript's order. An agent's call has the model's call id in its
 * own, after the step it was made in; models may use an id again in a later step.
 */
export function createCallFinder(
  events: NumberedEvent[],
): (callId: Json | undefined, tool: string) => CallEvent | undefined {
  const left = events.filter(
    (event): event is CallEvent => event.type === "tool.called" || event.type === "tool.settled",
  );
  return (callId, tool) => {
    const isIt = ({ call, tool: called }: CallEvent): boolean =>
      call === undefined ? called === tool : call === callId || call.replace(/^\d+\./, "") === callId;
    const at = left.findIndex(isIt);
    return at < 0 ? undefined : left.splice(at, 1)[0];
  };
}

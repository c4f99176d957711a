// Reads a session's log, from its engine or its store.
import type { Event, NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { decode } from "../core/session.ts";
import type { SessionsBase } from "../core/sessions.ts";
import type { Store } from "../core/store.ts";

/**
 * Returns whether a log belongs to an environment. Conversations and server logs, such as keys, have names that an
 * environment cannot have.
 */
export function isOfEnvironment({ environment }: { environment: string }): boolean {
  return !environment.includes(":");
}

/** Reads all events of a session. */
export async function readEvents(
  sessions: Pick<SessionsBase<unknown>, "events">,
  id: string,
): Promise<NumberedEvent[]> {
  const events: NumberedEvent[] = [];
  for await (const event of sessions.events(id)) events.push(event);
  return events;
}

/** Returns the log; undefined if the session is missing or not an episode. A row of another store may name any log. */
export async function readLog(store: Store, session: string): Promise<NumberedEvent[] | undefined> {
  const entries = await store.read(session, 0);
  const events = entries?.map(({ version, body }) => ({ ...decode<Event>(body, session), version }));
  const [first] = events ?? [];
  return first?.type === "session.opened" && isOfEnvironment(first) ? events : undefined;
}

/** Like `readLog`. For a forked session, the parents' events up to the fork come first, with their own versions. */
export async function logWithParents(
  store: Store,
  session: string,
  until = Infinity,
): Promise<NumberedEvent[] | undefined> {
  const events = (await readLog(store, session))?.filter(({ version }) => version <= until);
  const [first, ...rest] = events ?? [];
  if (first?.type !== "session.opened" || !first.parent) return events;
  const before = await logWithParents(store, first.parent.session, first.parent.version);
  return before ? [...before, ...rest] : events;
}

type CallEvent = Extract<NumberedEvent, { type: "tool.called" | "tool.settled" }>;

/**
 * Finds the event for each call in a transcript, in order. An agent's call id consists of its step and the model's call
 * id, because models may reuse an id in a later step.
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

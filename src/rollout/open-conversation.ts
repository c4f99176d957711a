// Opens the session of a conversation, and reads its events.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import { isMessage, toText, type Item } from "../core/model.ts";
import { inForceIn } from "../core/session.ts";
import type { Conversations, SavedConversation } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { readEvents } from "./episode-log.ts";

export interface Opening {
  session: string | undefined;
  user: string | undefined;
  /** The initial state, if the session is new. */
  state: AgentState | undefined;
  saved: SavedConversation | undefined;
}

/** Opens the session for a conversation: a new session, a session from the store, or a saved session. */
export async function openSession(sessions: Conversations, opening: Opening): Promise<string> {
  const { session, user, state, saved } = opening;
  if (saved) {
    assertUser("the saved session", saved.user, user);
    return (await sessions.restore(saved, session)).session;
  }
  const known = session === undefined ? undefined : await sessions.peek(session);
  if (!known) return (await sessions.open({ session, user, state })).session;
  assertUser(`session ${known.session}`, known.user ?? "user", user);
  if (known.ended) throw new HoldfastError("session_closed", `session ${known.session} was closed`);
  if (state && Object.keys(state).length > 0) {
    const message = `session ${known.session} already exists, so the file cannot set its initial state; remove \`state\` from the file, or choose another --session`;
    throw new HoldfastError("session_exists", message);
  }
  return known.session;
}

function assertUser(what: string, is: string, wanted: string | undefined): void {
  if (wanted === undefined || wanted === is) return;
  throw invalidOption(`${what} belongs to the user ${is}, not to ${wanted}`);
}

/** Reads the events of a session that were not undone. */
export async function eventsInForce(sessions: Conversations, session: string): Promise<readonly NumberedEvent[]> {
  const events = await readEvents(sessions, session);
  const isInForce = inForceIn(events);
  return events.filter(({ version }) => isInForce(version));
}

/** Returns the user's last message if its turn was interrupted: the process was killed, or the turn cancelled. */
export function cutShort(events: readonly NumberedEvent[]): string | undefined {
  const last = events.findLastIndex(({ type }) => type === "invocation.began");
  const began = events[last];
  if (began?.type !== "invocation.began") return undefined;
  const isOver = events.slice(last).some((event) => event.type === "agent.ended" && event.last);
  // A failed turn is finished, and the user was told.
  const hasFailed = events.at(-1)?.type === "agent.failed";
  return isOver || hasFailed ? undefined : userText(began.items);
}

/** Returns the user's messages, the newest first. */
export function queriesIn(events: readonly NumberedEvent[]): string[] {
  return events.flatMap((event) => (event.type === "invocation.began" ? userText(event.items) : [])).toReversed();
}

/** Returns the text of a user's message. */
export function userText(items: Item[]): string {
  return items.flatMap((item) => (isMessage(item) ? toText(item.content) : [])).join("");
}

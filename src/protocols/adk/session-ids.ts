// Ids of sessions that ADK's clients chose. In ADK, such an id is unique only for one user of one app.
import { HoldfastError, invalidOption, isHoldfastError } from "../../core/errors.ts";
import type { Conversations, SessionInfo } from "../../core/sessions.ts";
import type { AgentState } from "../../core/shared-state.ts";

/** One user's sessions of one app. */
interface Owner {
  sessions: Conversations;
  user: string;
}

/** Encodes a part of a stored id. Half a character, which cannot be encoded, is replaced. */
const encoded = (part: string): string => encodeURIComponent(Buffer.from(part).toString());

const startOf = ({ sessions, user }: Owner): string => `adk:${encoded(sessions.app)}:${encoded(user)}:`;

/** Returns the id by which the client knows a session. */
export function clientId(owner: Owner, session: string): string {
  const start = startOf(owner);
  if (!session.startsWith(start)) return session;
  return decodeURIComponent(session.slice(start.length, session.lastIndexOf(":")));
}

/** Finds an open session by the client's id. If there is none, returns the id under which to store a new one. */
async function search(owner: Owner, id: string): Promise<SessionInfo | string> {
  // The server chose this id, or an earlier version of Holdfast stored the session under the client's id.
  const own = await owner.sessions.peek(id);
  if (own && own.ended === undefined) return own;
  // A deleted session may stay in the store, so the id is counted each time that it is chosen.
  for (let count = 1; ; count++) {
    const session = `${startOf(owner)}${encoded(id)}:${count}`;
    const info = await owner.sessions.peek(session);
    if (!info) return session;
    if (info.ended === undefined) return info;
  }
}

export async function findSession(owner: Owner, id: string): Promise<SessionInfo> {
  const found = await search(owner, id);
  if (typeof found !== "string") return found;
  throw new HoldfastError("session_not_found", `user ${owner.user} has no session ${id}`, { detail: { session: id } });
}

/** Opens a session under an id that the client chose. */
export async function openChosen(owner: Owner, id: string, state: AgentState | undefined): Promise<SessionInfo> {
  if (id.startsWith("holdfast:")) throw invalidOption(`the session id ${id} is reserved`);
  const found = await search(owner, id);
  const exists = new HoldfastError("session_exists", `session ${id} already exists`);
  if (typeof found !== "string") throw exists;
  return owner.sessions.open({ session: found, state }).catch((thrown: unknown) => {
    throw isHoldfastError(thrown) && thrown.code === "session_exists" ? exists : thrown;
  });
}

// The session for the first message of a conversation: a retry of that message finds the same session.
import { hash } from "node:crypto";
import { isHoldfastError } from "../../core/errors.ts";
import type { Conversations } from "../../core/sessions.ts";

/** Minimum length of an id that counts as unique. Shorter ids, such as "1", are not unique among all clients. */
const shortest = 20;

/**
 * Returns a session for a client's first message. If the message has a long id, a retry gets the same session, on any
 * server. With a short id or none, every request gets a new session.
 */
export async function sessionForMessage(
  sessions: Conversations,
  call: string | undefined,
  user: string | undefined,
): Promise<string> {
  if (call === undefined || call.length < shortest) return (await sessions.open({ user })).session;
  const session = messageSession([sessions.app, user ?? sessions.user ?? "", call]);
  try {
    await sessions.open({ session, user });
  } catch (thrown) {
    if (!isHoldfastError(thrown) || thrown.code !== "session_exists") throw thrown;
  }
  return session;
}

/** Derives a session id from a message's id and place. Only a client that knows both can guess the session id. */
export const messageSession = (parts: string[]): string =>
  `_${hash("sha256", JSON.stringify(["first message", ...parts]), "base64url").slice(0, 22)}`;

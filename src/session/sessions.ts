// createSessions(): the engine, for an environment or for the agents of an app.
import type { AnyEnvironment } from "../core/environment.ts";
import type { Conversations, Episodes } from "../core/sessions.ts";
import { createConversations, type ConversationOptions } from "./conversation.ts";
import { createEpisodes, type EpisodeOptions } from "./episode.ts";

/**
 * The sessions of one environment in one store. Any number of processes may have one on the same store.
 *
 * @example
 * const sessions = createSessions({ environment: counter, store: memoryStore() });
 * const { session } = await sessions.open({ task: { start: 3, goal: 5 } });
 * await sessions.call(session, "add", { by: 2 });
 * const { reward } = await sessions.verify(session);
 */
export function createSessions<E extends AnyEnvironment>(options: EpisodeOptions<E>): Episodes<E>;
/**
 * The conversations of one app in one store, for its agents.
 *
 * @example
 * const sessions = createSessions({ app: "concierge", store: memoryStore() });
 * const { session } = await sessions.open({ user: "ann" });
 * for await (const event of run(agent, { sessions, session, message: "hello" })) console.log(event);
 */
export function createSessions(options: ConversationOptions): Conversations;
export function createSessions(
  options: EpisodeOptions<AnyEnvironment> | ConversationOptions,
): Episodes | Conversations {
  return "app" in options ? createConversations(options) : createEpisodes(options);
}

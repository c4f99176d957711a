// createSessions(): the engine for one environment, or for an app's agents.
import type { AnyEnvironment } from "../core/environment.ts";
import { invalidOption } from "../core/errors.ts";
import type { Conversations, Episodes } from "../core/sessions.ts";
import { refuseUnknown } from "../core/suggest.ts";
import type { CacheLimits } from "./cache.ts";
import { createConversations, type ConversationOptions } from "./conversation.ts";
import type { EngineOptions } from "./engine.ts";
import type { Limits } from "./limits.ts";
import { createEpisodes, type EpisodeOptions } from "./episode.ts";

/**
 * Manages the sessions of one environment in one store. Any number of processes may use the same store.
 *
 * @example
 * const sessions = createSessions({ environment: counter, store: memoryStore() });
 * const { session } = await sessions.open({ task: { start: 3, goal: 5 } });
 * await sessions.call(session, "add", { by: 2 });
 * const { reward } = await sessions.verify(session);
 */
export function createSessions<E extends AnyEnvironment>(options: EpisodeOptions<E>): Episodes<E>;
/**
 * Manages the conversations of one app's agents in one store.
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
  const isApp = "app" in options;
  refuseUnknown("createSessions", options, isApp ? ofConversations : ofEpisodes, invalidOption);
  refuseUnknown("`limits` of createSessions", options.limits ?? {}, ofLimits, invalidOption);
  refuseUnknown("`cache` of createSessions", options.cache ?? {}, ofCache, invalidOption);
  if (typeof options.store?.append !== "function")
    throw invalidOption("createSessions needs `store`, as in memoryStore()");
  if (isApp) return createConversations(options);
  if (!(options.environment?.definitions instanceof Map))
    throw invalidOption("createSessions needs `environment`, which defineEnvironment returns, or `app`");
  return createEpisodes(options);
}

const ofEngine: Record<keyof EngineOptions, true> = {
  store: true,
  timeout: true,
  limits: true,
  cache: true,
  keepEnded: true,
  onError: true,
};
const ofLimits: Record<keyof Limits, true> = { idle: true, age: true, sessions: true };
const ofCache: Record<keyof CacheLimits, true> = { sessions: true, bytes: true };
const ofEpisodes: Record<keyof EpisodeOptions<never>, true> = { ...ofEngine, environment: true };
const ofConversations: Record<keyof ConversationOptions, true> = { ...ofEngine, app: true, agent: true, lease: true };

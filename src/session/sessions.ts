// createSessions(): the engine for an environment.
import type { AnyEnvironment } from "../core/environment.ts";
import type { Episodes } from "../core/sessions.ts";
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
export function createSessions<E extends AnyEnvironment>(options: EpisodeOptions<E>): Episodes<E> {
  return createEpisodes(options);
}

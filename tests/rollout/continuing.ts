// Lets models continue sessions in tests, with conversations in memory, as on a server.
import { createSessions, memoryStore, type Sessions } from "holdfast";
import { createSessionPlayer, type ModelFor } from "../../src/rollout/play/continue-session.ts";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import type { SessionPlayer } from "../../src/rollout/play/continue-session.ts";

export function goingOnOf<E extends AnyEnvironment>(
  episodes: Sessions<E>,
  models: { [name: string]: ModelFor },
): SessionPlayer {
  const scratch = () => createSessions({ app: "play", store: memoryStore() });
  return createSessionPlayer({ episodes: episodes as Sessions, models: new Map(Object.entries(models)), scratch });
}

// Has models go on with sessions in tests: their conversations are in memory, as a server has them.
import { createAgentSessions, memoryStore, type Sessions } from "holdfast";
import { createGoingOn, type ModelFor } from "../../src/agent/go-on.ts";
import type { AnyEnvironment } from "../../src/core/environment.ts";
import type { GoingOn } from "../../src/core/go-on.ts";

export function goingOnOf<E extends AnyEnvironment>(
  episodes: Sessions<E>,
  models: { [name: string]: ModelFor },
): GoingOn {
  const scratch = () => createAgentSessions({ app: "play", store: memoryStore() });
  return createGoingOn({ episodes: episodes as Sessions, models: new Map(Object.entries(models)), scratch });
}

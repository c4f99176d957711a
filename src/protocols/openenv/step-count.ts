// createStepCount(): counts the calls of an episode. Reads only the events since the last count of the same session.
import { dropOldest } from "../../core/drop-oldest.ts";
import type { Sessions } from "../../core/sessions.ts";

/** Maximum number of sessions whose count is cached. Other counts are read from the log again. */
const mostKept = 10_000;

export function createStepCount(sessions: Sessions): (session: string) => Promise<number> {
  const kept = new Map<string, { version: number; steps: number }>();
  return async (session) => {
    let { version, steps } = kept.get(session) ?? { version: 0, steps: 0 };
    for await (const event of sessions.events(session, { after: version })) {
      version = event.version;
      if (event.type === "session.seeded") steps = 0;
      else if (event.type === "tool.called") steps++;
    }
    kept.delete(session);
    kept.set(session, { version, steps });
    dropOldest(kept, mostKept);
    return steps;
  };
}

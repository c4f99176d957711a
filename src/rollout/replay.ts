// replayEpisode(): runs an episode again and reports the first event that differs.
import { isHoldfastError } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { Replayed, Sessions } from "../core/sessions.ts";

/** `missing`: the store does not have the session. */
export type ReplayedEpisode =
  | { session: string; result: "same"; events: number }
  | { session: string; result: "missing" }
  | ({ session: string; result: "differs"; event: string; tool?: string } & Omit<
      Extract<Replayed, { same: false }>,
      "same"
    >);

export async function replayEpisode(sessions: Sessions, session: string): Promise<ReplayedEpisode> {
  try {
    const replayed = await sessions.replay(session);
    if (replayed.same) return { session, result: "same", events: replayed.events };
    const { same: _, ...difference } = replayed;
    const event = await eventAt(sessions, session, difference.version);
    const about = { event: event?.type ?? "event", ...(event && "tool" in event && { tool: event.tool }) };
    return { session, result: "differs", ...about, ...difference };
  } catch (thrown) {
    if (isHoldfastError(thrown) && thrown.code === "session_not_found") return { session, result: "missing" };
    throw thrown;
  }
}

async function eventAt(sessions: Sessions, session: string, version: number): Promise<NumberedEvent | undefined> {
  for await (const event of sessions.events(session, { after: version - 1 })) return event;
  return undefined;
}

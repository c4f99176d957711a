// replayEpisodes(): replays the episodes of a file or a store, and compares them with their logs.
import { isHoldfastError } from "../core/errors.ts";
import type { Replayed, Sessions } from "../core/sessions.ts";
import { finishedRollouts, rolloutName } from "./finished.ts";
import type { OnBad } from "./tasks.ts";

interface Named {
  name: string;
  session: string;
}

type Difference = Omit<Extract<Replayed, { same: false }>, "same">;

/** `missing`: the store does not have the session. */
export type ReplayedEpisode = Named &
  (
    | { result: "same"; events: number }
    | { result: "missing" }
    | ({ result: "differs"; event: string; tool?: string } & Difference)
  );

/** Replays all episodes of a rollout file; without a file, all sessions of the environment. */
export async function* replayEpisodes(
  sessions: Sessions,
  file: string | undefined,
  onBad: OnBad,
): AsyncGenerator<ReplayedEpisode> {
  for await (const named of file === undefined ? sessionsIn(sessions) : sessionsInFile(file, onBad)) {
    yield await replayEpisode(sessions, named);
  }
}

async function* sessionsIn(sessions: Sessions): AsyncGenerator<Named> {
  for await (const { session } of sessions.list()) yield { name: `session ${session}`, session };
}

/** Yields the sessions of failed rollouts too, but a rollout that failed before its seed has no episode. */
async function* sessionsInFile(file: string, onBad: OnBad): AsyncGenerator<Named> {
  for await (const { row } of finishedRollouts(file, onBad)) {
    const { session_id: session, failure_kind: kind } = row;
    if (typeof session === "string") yield { name: `${rolloutName(row)}, session ${session}`, session };
    else if (kind !== "task") yield { name: rolloutName(row), session: "" };
  }
}

async function replayEpisode(sessions: Sessions, named: Named): Promise<ReplayedEpisode> {
  const { session } = named;
  try {
    const replayed = await sessions.replay(session);
    if (replayed.same) return { ...named, result: "same", events: replayed.events };
    const { same: _, ...difference } = replayed;
    for await (const event of sessions.events(session, { after: difference.version - 1 })) {
      const tool = "tool" in event ? { tool: event.tool } : {};
      return { ...named, result: "differs", event: event.type, ...tool, ...difference };
    }
    return { ...named, result: "differs", event: "event", ...difference };
  } catch (thrown) {
    if (isHoldfastError(thrown) && thrown.code === "session_not_found") return { ...named, result: "missing" };
    throw thrown;
  }
}

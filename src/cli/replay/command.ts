// Replays the episodes in a file or a store, and reports differences.
import { cannotLoad, isHoldfastError } from "../../core/errors.ts";
import type { Sessions, Replayed } from "../../core/sessions.ts";
import { finishedRollouts, rolloutName } from "../../rollout/finished.ts";
import { createSessions } from "../../session/sessions.ts";
import { createCounterLine } from "../counter-line.ts";
import { print } from "../plain.ts";
import { loadEnvironment } from "../../rollout/load.ts";
import { createComplaints, openStoreFor } from "../rollout-source.ts";
import type { NumberedEvent } from "../../core/event.ts";

export interface ReplayFlags {
  environment: string;
  store?: string;
  json?: boolean;
}

interface Named {
  session: string;
  name: string;
}

/** List at most this many missing sessions; with a wrong --store every one is missing. */
const mostMissing = 3;

export async function runReplay(file: string | undefined, flags: ReplayFlags): Promise<void> {
  const environment = await loadEnvironment(flags.environment);
  const store = await openStoreFor(file, flags.store);
  const counting = createCounterLine("episodes replayed");
  const counts = { same: 0, differs: 0, missing: 0 };
  const sessions = createSessions({ environment, store });
  try {
    for await (const { session, name } of file === undefined ? sessionsIn(sessions) : sessionsInFile(file)) {
      const episode = await replayEpisode(sessions, session);
      counts[episode.result]++;
      counting.add();
      if (flags.json) print(JSON.stringify({ name, ...episode }));
      else if (episode.result === "differs" || (episode.result === "missing" && counts.missing <= mostMissing)) {
        counting.end();
        print(`${name}: ${inWords(episode, environment.name)}`);
      }
    }
  } finally {
    counting.end();
    await sessions.stop();
    await store.close();
  }
  const { same, differs, missing } = counts;
  if (same + differs + missing === 0) throw cannotLoad(`${file ?? flags.store} has no episodes of ${environment.name}`);
  if (differs + missing > 0) process.exitCode = 1;
  if (flags.json) print(JSON.stringify(counts));
  else {
    const others = [
      ...(differs > 0 ? [`${differs} differ`] : []),
      ...(missing > 0 ? [`${missing} missing in the store`] : []),
    ];
    print([`${same + differs + missing} episodes replayed: ${same} are the same`, ...others].join(", "));
  }
}

async function* sessionsIn(sessions: Sessions): AsyncGenerator<Named, void, undefined> {
  for await (const { session } of sessions.list()) yield { session, name: `session ${session}` };
}

/** Includes failed rollouts; a rollout that failed before its seed has no episode. */
async function* sessionsInFile(file: string): AsyncGenerator<Named, void, undefined> {
  for await (const { row } of finishedRollouts(file, createComplaints())) {
    const { session_id: session, failure_kind: kind } = row;
    if (typeof session === "string") yield { session, name: `${rolloutName(row)}, session ${session}` };
    else if (kind !== "task") yield { session: "", name: rolloutName(row) };
  }
}

function inWords(episode: Exclude<ReplayedEpisode, { result: "same" }>, environment: string): string {
  return episode.result === "missing" ? `the store does not have this episode of ${environment}` : episode.message;
}

/** `missing`: the store does not have the session. */
type ReplayedEpisode =
  | { session: string; result: "same"; events: number }
  | { session: string; result: "missing" }
  | ({ session: string; result: "differs"; event: string; tool?: string } & Omit<
      Extract<Replayed, { same: false }>,
      "same"
    >);

async function replayEpisode(sessions: Sessions, session: string): Promise<ReplayedEpisode> {
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

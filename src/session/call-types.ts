// The types for a running call and its answer.
import type { Outcome, Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { Answer, CallOptions } from "../core/sessions.ts";
import type { OpenLog } from "./open-log.ts";

export interface Call {
  log: OpenLog;
  tool: string;
  input: Json;
  id: string | undefined;
  signal: AbortSignal | undefined;
  /** The episode that the caller specified. */
  expected: number | undefined;
  /** True if the session must be seeded, even if the environment allows calls without a seed. */
  seeded: boolean;
  /** The last version that the caller saw, and the time of the call. Only for a call without an id. */
  seen?: { version: number; asked: number };
  onProgress: CallOptions["onProgress"];
  /** Milliseconds that the call has waited for the store. */
  waited: number;
  /** The call's episode, once known. */
  episode?: number;
}

/** Returns the episode in which to look for the call. */
export function lookupEpisode({ log, episode, expected }: Call): number {
  return episode ?? expected ?? log.session.episode;
}

export function answer(
  log: OpenLog,
  event: { outcome: Outcome; episode: number; thrown?: Thrown },
  version: number,
  repeated: boolean,
): Answer {
  const { outcome, episode, thrown } = event;
  const about = { session: log.id, version, repeated, unseeded: episode === 0 };
  if (outcome.ok) return { ok: true, output: outcome.output, ...about };
  return { ok: false, error: outcome.error, ...about, ...(thrown && { thrown }) };
}

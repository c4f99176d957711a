// One call on its way, and the answer it ends in.
import type { Outcome } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import type { Answer } from "../core/sessions.ts";
import type { Hot } from "./log.ts";

export interface Call {
  hot: Hot;
  tool: string;
  input: Json;
  id: string | undefined;
  signal: AbortSignal | undefined;
  /** The episode that its caller is in, if it says so. */
  expected: number | undefined;
  /** The episode that it belongs to, once that is known. */
  episode?: number;
}

/** The episode that a call is looked for in. */
export function episodeOf({ hot, episode, expected }: Call): number {
  return episode ?? expected ?? hot.session.episode;
}

export function answer(
  hot: Hot,
  event: { outcome: Outcome; episode: number },
  version: number,
  repeated: boolean,
): Answer {
  const { outcome, episode } = event;
  const about = { session: hot.id, version, repeated, unseeded: episode === 0 };
  return outcome.ok ? { ok: true, output: outcome.output, ...about } : { ok: false, error: outcome.error, ...about };
}

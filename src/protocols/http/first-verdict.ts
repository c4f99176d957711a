// Only the first verify of an episode counts: assertFirst() refuses later ones, and firstVerdict() finds its verdict.
import { HoldfastError } from "../../core/errors.ts";
import type { EventOf, NumberedEvent, Verdict } from "../../core/event.ts";
import { equalJson, type Json } from "../../core/json.ts";
import type { Sessions, Verification } from "../../core/sessions.ts";

/**
 * Refuses a second verify of an episode if it differs from the first verify. The model may have sent the first verify,
 * to learn its reward or its task.
 */
export async function assertFirst(
  sessions: Sessions,
  { session, episode, version }: Verification,
  response: Json | undefined,
  code: "episode_over" | "verify_failed" = "verify_failed",
): Promise<void> {
  // In the log, all verdicts on a state follow that state. If only one verdict follows, it is the newest one. Then the
  // earlier verdicts judged other states, and the rest of the log does not have to be read.
  const after = await verdictsIn(sessions.events(session, { after: version }), episode, episode, 2);
  const verdicts = after.length < 2 ? [] : await verdictsIn(sessions.events(session), 0, episode, 1);
  const [first] = verdicts;
  if (first?.judged === version && isAbout(first, response)) return;
  const message = `episode ${episode} of session ${session} was already verified, with a different state, response or task`;
  throw new HoldfastError(code, message);
}

/** Returns the first verdict on the newest episode, if it was on the same response. */
export async function firstVerdict(
  sessions: Sessions,
  session: string,
  response: Json | undefined,
): Promise<Verdict | undefined> {
  const { episode } = await sessions.info(session);
  const [first] = await verdictsIn(sessions.events(session), 0, episode, 1);
  return first && isAbout(first, response) ? first.verdict : undefined;
}

/** Returns whether a verdict is on the episode's own task and this response. */
const isAbout = ({ task, refused, ...asked }: EventOf<"session.verified">, response: Json | undefined): boolean =>
  task === undefined && !refused && equalJson(asked.response ?? null, response ?? null);

/** Returns the first `most` verdicts on an episode. `current`: the episode to which the first of `events` belongs. */
async function verdictsIn(
  events: AsyncIterable<NumberedEvent>,
  current: number,
  episode: number,
  most: number,
): Promise<EventOf<"session.verified">[]> {
  const found: EventOf<"session.verified">[] = [];
  for await (const event of events) {
    if (event.type === "session.seeded") current = event.episode;
    if (event.type === "session.verified" && (event.episode ?? current) === episode) found.push(event);
    if (found.length === most) break;
  }
  return found;
}

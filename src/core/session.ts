// A session as the fold of its log.
import { foldConversation, isConversation, type Conversation } from "./conversation.ts";
import { applyDelta } from "./delta.ts";
import { HoldfastError } from "./errors.ts";
import type { EndReason, Event, Labels, NumberedEvent, Randomness } from "./event.ts";
import type { Json } from "./json.ts";

/** All that a log amounts to. A snapshot is this, as JSON. */
export interface Session {
  environment: string;
  /** The number of events folded. */
  version: number;
  opened: number;
  touched: number;
  /** The newest event other than a verdict or the end: what a verdict is about. */
  changed: number;
  /** The number of the episode; 0 until the first seed. */
  episode: number;
  /** The highest number an episode ever had: it is not given out twice, also after a rewind. */
  episodes: number;
  task: Json | null;
  labels: Labels;
  /** The newest episode that was verified. */
  verified: number;
  /** The number of verdicts on this episode. */
  verdicts: number;
  /** The same of other episodes that have any, by their number. */
  otherVerdicts?: { [episode: number]: number };
  /** Every rewind: the version of its event, and the version it went back to. */
  rewinds: { at: number; to: number }[];
  randomness: Randomness;
  ended?: EndReason;
  parent?: { session: string; version: number };
  /** Of an agent's session. */
  conversation?: Conversation;
  /** null if the environment has no default state and the session was not seeded. */
  state: Json;
}

/** The session after one more event. Changes it in place; `owned` as in applyDelta. */
export function fold(session: Session | undefined, event: Event, owned?: WeakSet<object>): Session {
  if (!session) {
    if (event.type !== "session.opened") throw corrupt("does not start with session.opened");
    return {
      environment: event.environment,
      version: 1,
      opened: event.parent?.at ?? event.at,
      touched: event.at,
      changed: 1,
      episode: event.parent?.episode ?? 0,
      episodes: event.parent?.episode ?? 0,
      task: event.parent?.task ?? null,
      labels: event.labels ?? {},
      verified: 0,
      verdicts: 0,
      rewinds: [],
      randomness: event.randomness,
      ...(event.parent && { parent: { session: event.parent.session, version: event.parent.version } }),
      ...(isConversation(event) && { conversation: { version: 1, ...(event.isolated && { isolated: true }) } }),
      state: event.delta ? applyDelta(null, event.delta) : null,
    };
  }
  session.version++;
  session.touched = event.at;
  if (event.type !== "session.verified" && event.type !== "session.closed") session.changed = session.version;
  if (event.delta) session.state = applyDelta(session.state, event.delta, owned);
  if (session.conversation) session.conversation = foldConversation(session.conversation, event, session.version);
  switch (event.type) {
    case "session.opened":
      throw corrupt("was opened twice");
    case "session.seeded":
    case "session.rewound":
      if (event.type === "session.rewound") session.rewinds.push({ at: session.version, to: event.to });
      if (event.episode !== session.episode) switchVerdicts(session, event.episode);
      session.episode = event.episode;
      session.episodes = Math.max(session.episodes, event.episode);
      session.task = event.task;
      session.randomness = event.randomness;
      session.labels = event.labels ?? {};
      break;
    case "tool.called":
      // Calls that ran beside others drew from a seed of their own.
      if (!event.run) session.randomness = { seed: session.randomness.seed, turn: session.randomness.turn + 1 };
      break;
    case "session.closed":
      session.ended = event.reason;
      break;
    case "tool.claimed":
    case "tool.settled":
    case "session.updated":
    case "shared.changed":
    case "invocation.began":
    case "turn.taken":
    case "turn.renewed":
    case "turn.released":
    case "agent.began":
    case "model.answered":
    case "tools.started":
    case "tools.answered":
    case "agent.ended":
    case "agent.failed":
      break;
    case "session.verified":
      addVerdict(session, event.episode ?? session.episode);
      break;
    default:
      event satisfies never;
      throw corrupt("has an event of an unknown type");
  }
  return session;
}

function addVerdict(session: Session, episode: number): void {
  session.verified = Math.max(session.verified, episode);
  if (episode === session.episode) session.verdicts++;
  else (session.otherVerdicts ??= {})[episode] = verdictsOn(session, episode) + 1;
}

/** Puts the count of the episode that ends aside, and takes up that of the one that begins or is returned to. */
function switchVerdicts(session: Session, episode: number): void {
  const count = verdictsOn(session, episode);
  if (session.verdicts > 0) (session.otherVerdicts ??= {})[session.episode] = session.verdicts;
  session.verdicts = count;
}

/** The number of verdicts that the log has on an episode. */
export function verdictsOn(session: Session, episode: number): number {
  return episode === session.episode ? session.verdicts : (session.otherVerdicts?.[episode] ?? 0);
}

/** Whether the event at a version is part of what the session is now, or was undone by a rewind. Wants the newest session. */
export function isInForce(session: Pick<Session, "version" | "rewinds">, version: number): boolean {
  // Back from the newest version: everything since the last rewind counts, then everything up to where that one went.
  let position = session.version;
  for (const { at, to } of session.rewinds.toReversed()) {
    if (at > position) continue;
    if (version >= at) break;
    position = to;
  }
  return version <= position;
}

/** Tells of a version whether it is in force, given all events of the log. */
export function inForceIn(events: readonly NumberedEvent[]): (version: number) => boolean {
  const rewinds = events.flatMap((event) =>
    event.type === "session.rewound" ? [{ at: event.version, to: event.to }] : [],
  );
  return (version) => isInForce({ version: events.length, rewinds }, version);
}

function corrupt(what: string): HoldfastError {
  return new HoldfastError("store_corrupt", `the log of a session ${what}`);
}

export function decode<T>(body: string, session: string): T {
  try {
    return JSON.parse(body) as T;
  } catch (cause) {
    throw new HoldfastError("store_corrupt", `an entry in the log of session ${session} is not JSON`, { cause });
  }
}

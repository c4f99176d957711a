// Folds a log into a session.
import { foldConversation, isConversation, type Conversation } from "./conversation.ts";
import { applyDelta, type Owned } from "./delta.ts";
import { HoldfastError } from "./errors.ts";
import { eventTypes, isAside } from "./event.ts";
import type { EndReason, Event, Labels, NumberedEvent, Randomness } from "./event.ts";
import type { Json } from "./json.ts";
import { addExchange, type ModelTotals } from "./model-exchange.ts";

/** The fold of a log. A snapshot is this object as JSON. */
export interface Session {
  environment: string;
  /** The number of events folded. */
  version: number;
  opened: number;
  touched: number;
  /**
   * The version that a verdict is about: the version of the newest event that is not a verify, a model's answer or the
   * end of the session.
   */
  changed: number;
  /** The episode number; 0 until the first seed. */
  episode: number;
  /** The highest episode number so far. A number is never reused, even after a rewind. */
  episodes: number;
  task: Json | null;
  labels: Labels;
  /** The newest verified episode. */
  verified: number;
  /** The number of verdicts on this episode. */
  verdicts: number;
  /** The number of verdicts on each other episode, by episode number. */
  otherVerdicts?: { [episode: number]: number };
  /** Totals of the model requests since the last seed or rewind; absent if there were none. */
  models?: ModelTotals;
  /** Every rewind: the version of its event, and its target. */
  rewinds: { at: number; to: number }[];
  randomness: Randomness;
  ended?: EndReason;
  parent?: { session: string; version: number };
  /** Present only in an agent's session. */
  conversation?: Conversation;
  /** null if the environment has no default state and the session was not seeded. */
  state: Json;
}

/** Returns the session after one more event. Changes the session in place; `owned` works as in applyDelta. */
export function fold(session: Session | undefined, event: Event, owned?: Owned): Session {
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
  if (!isAside(event) && event.type !== "session.closed") session.changed = session.version;
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
      delete session.models;
      break;
    case "model.called":
      session.models = addExchange(session.models, event);
      break;
    case "tool.called":
      // A concurrent call has its own random seed.
      if (!event.run) session.randomness = { seed: session.randomness.seed, turn: session.randomness.turn + 1 };
      break;
    case "session.updated":
      if (event.labels) session.labels = withLabels(session.labels, event.labels);
      break;
    case "session.closed":
      session.ended = event.reason;
      break;
    case "session.verified":
      addVerdict(session, event.episode ?? session.episode, event.refused);
      break;
    default:
      if (!eventTypes.includes(event.type)) throw corrupt("has an event of an unknown type");
  }
  return session;
}

/** Returns the labels after a change, in which null removes a label. */
function withLabels(labels: Labels, change: Labels): Labels {
  return Object.fromEntries(Object.entries({ ...labels, ...change }).filter(([, value]) => value !== null));
}

function addVerdict(session: Session, episode: number, isRefused = false): void {
  if (!isRefused) session.verified = Math.max(session.verified, episode);
  if (episode === session.episode) session.verdicts++;
  else (session.otherVerdicts ??= {})[episode] = verdictsOn(session, episode) + 1;
}

/** Stores the count for the episode that ends, and loads the count for the episode that starts or is returned to. */
function switchVerdicts(session: Session, episode: number): void {
  const count = verdictsOn(session, episode);
  if (session.verdicts > 0) (session.otherVerdicts ??= {})[session.episode] = session.verdicts;
  session.verdicts = count;
}

export function verdictsOn(session: Session, episode: number): number {
  return episode === session.episode ? session.verdicts : (session.otherVerdicts?.[episode] ?? 0);
}

/** Returns whether a value can be a session's id. Stores may confuse ids with lone surrogates, because UTF-8 lacks them. */
export const isSessionId = (id: unknown): id is string => typeof id === "string" && !/\p{Surrogate}/u.test(id);

/** Returns whether the event at a version was not undone by a rewind. Needs the newest session. */
export function isInForce(session: Pick<Session, "version" | "rewinds">, version: number): boolean {
  // Walks back from the newest version: events since the last rewind count, then events up to its target.
  let position = session.version;
  for (const { at, to } of session.rewinds.toReversed()) {
    if (at > position) continue;
    if (version >= at) break;
    position = to;
  }
  return version <= position;
}

/** Returns a function that tests whether a version was not undone, given all events of the log. */
export function inForceIn(events: readonly NumberedEvent[]): (version: number) => boolean {
  const rewinds = events.flatMap((event) =>
    event.type === "session.rewound" ? [{ at: event.version, to: event.to }] : [],
  );
  return (version) => isInForce({ version: events.length, rewinds }, version);
}

function corrupt(what: string): HoldfastError {
  return new HoldfastError("store_corrupt", `the session log ${what}`);
}

export function decode<T>(body: string, session: string): T {
  try {
    return JSON.parse(body) as T;
  } catch (cause) {
    throw new HoldfastError("store_corrupt", `an entry in the log of session ${session} is not JSON`, { cause });
  }
}

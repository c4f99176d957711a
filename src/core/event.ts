// Events: everything that can happen to a session, as one closed union. A log is a list of events.
import type { Delta } from "./delta.ts";
import type { ErrorCode } from "./errors.ts";
import type { Json } from "./json.ts";
import type { Item, Usage } from "./model.ts";

/** Why a session ended. */
export type EndReason = "closed" | "idle" | "age" | "capacity";

/** The result of a call: the tool's output, or an error. */
export type Outcome =
  { ok: true; output: Json } | { ok: false; error: { code: ErrorCode; message: string; detail?: Json } };

/** An error that an author's code threw. It is recorded for people; no model reads it. */
export interface Thrown {
  /** Its name and message, as in "TypeError: x is undefined". */
  error: string;
  /** The author's function and line, as in "roll (environment.ts:12)". */
  place: string;
  /** The author's part of the stack trace, with paths relative to the working directory. */
  stack?: string;
}

/** Returns an error as one line, as in "TypeError: x is undefined in roll (environment.ts:12)". */
export const summarizeThrown = ({ error, place }: Thrown): string => `${error} in ${place}`;

/** The result of verify: the reward, and any other fields that the environment's verify returned. */
export type Verdict = { reward: number; [detail: string]: Json };

/** The random numbers for an episode. */
export interface Randomness {
  seed: number;
  /** The number of calls that drew from it; the code calls it `draws`. The first version stored it under this name. */
  turn: number;
}

export type Labels = { [name: string]: Json };

/** The owner of a turn, and how many milliseconds of silence allow others to take it over. */
export interface Lease {
  owner: string;
  lapsesAfter: number;
}

/** An unfinished turn: one message to an agent, run to its end. */
export interface OpenTurn {
  invocation: string;
  /** The agent that is answering. */
  agent: string;
  /** The version of the turn's `invocation.began` event. */
  began: number;
  call?: string;
  /** The process that runs the turn. If there is none, any process may continue the turn. */
  lease?: Lease;
}

interface EventBase {
  /** Time of the commit, in milliseconds since 1970. It is never earlier than that of the previous event. */
  at: number;
  /** The event's change to the state; absent if nothing changed. */
  delta?: Delta;
}

interface Began {
  /** The time that its handler saw, if it differs from `at`. */
  began?: number;
}

/** The first event of every log. A forked session starts with its parent's state at that version. */
interface Opened extends EventBase {
  type: "session.opened";
  environment: string;
  randomness: Randomness;
  labels?: Labels;
  /** `at`: the time of the fork, if the event was copied from the parent. */
  parent?: { session: string; version: number; episode: number; task: Json | null; at?: number };
  /** A conversation that keeps `user:` and `app:` keys to itself. */
  isolated?: true;
}

/** A new episode: the delta replaces the whole state. */
interface Seeded extends EventBase, Began {
  type: "session.seeded";
  episode: number;
  task: Json;
  randomness: Randomness;
  call?: string;
  /** Labels to find this episode by, such as the id of a rollout or an attempt. */
  labels?: Labels;
}

/** A call with its result. `run` is present if it ran concurrently: the version it read, and its random seed. */
interface Called extends EventBase, Began {
  type: "tool.called";
  episode: number;
  call?: string;
  tool: string;
  input: Json;
  outcome: Outcome;
  log?: string[];
  thrown?: Thrown;
  run?: { version: number; seed: number };
}

/** An external call is about to run. Without a result by `until`, its outcome is unknown. */
interface Claimed extends EventBase {
  type: "tool.claimed";
  episode: number;
  call: string;
  tool: string;
  input: Json;
  until: number;
}

/** The result of an external call. */
interface Settled extends EventBase {
  type: "tool.settled";
  episode: number;
  call: string;
  tool: string;
  outcome: Outcome;
  log?: string[];
  thrown?: Thrown;
}

/** A verdict on the state at a version. */
interface Verified extends EventBase {
  type: "session.verified";
  judged: number;
  /** The episode that the version belongs to, if it is not the current one. */
  episode?: number;
  response?: Json;
  /** The task used, if it is not the episode's. */
  task?: Json;
  /** Digest of the response and the task, for the event's key. */
  digest: string;
  /** The question was refused, so verify did not run. The verdict has reward 0 and the reason. */
  refused?: true;
  verdict: Verdict;
}

/** The environment's verify threw. There is no verdict, so verify may run again. Only its first failure is recorded. */
interface VerifyFailed extends EventBase {
  type: "verify.failed";
  judged: number;
  /** The episode that the version belongs to, if it is not the current one. */
  episode?: number;
  /** Digest of the question, as in `session.verified`. */
  digest: string;
  error: { code: ErrorCode; message: string };
  thrown: Thrown;
}

/** The session returned to version `to`. */
interface Rewound extends EventBase {
  type: "session.rewound";
  to: number;
  episode: number;
  task: Json | null;
  randomness: Randomness;
  labels?: Labels;
  /** For a conversation: the speaker and the open turn at that version. Older versions did not write it. */
  conversation?: { speaker?: string; turn?: OpenTurn };
}

interface Closed extends EventBase {
  type: "session.closed";
  reason: EndReason;
}

/** A change to a conversation's state outside a turn. */
interface Updated extends EventBase {
  type: "session.updated";
  shared?: Delta;
  call?: string;
}

/** A change that a session made to shared state. Stored in the log of a user's or an app's state. */
interface SharedChanged extends EventBase {
  type: "shared.changed";
  session: string;
}

/** Fields that all events of an invocation have. An invocation is one user turn, run to its end. */
interface InInvocation extends EventBase {
  invocation: string;
  /** The event's change to shared state: keys that start with `user:` or `app:`. */
  shared?: Delta;
  /** Items added to the conversation. */
  items?: Item[];
  /** JSON Pointers to replaced values that others changed at the same time. */
  overwrote?: string[];
}

/** A message from the user. `agent` answers it. */
interface InvocationBegan extends InInvocation {
  type: "invocation.began";
  agent: string;
  items: Item[];
  /** The turn's id. A retry with the same digest of message and state continues the turn or returns its result. */
  call?: string;
  digest?: string;
  lease?: Lease;
}

/** A heartbeat from the turn's owner. */
interface TurnRenewed extends InInvocation {
  type: "turn.renewed";
  owner: string;
}

/** A new owner continues the turn. */
interface TurnTaken extends InInvocation {
  type: "turn.taken";
  lease?: Lease;
  /** The previous owner. */
  from?: string;
}

/** The owner stopped before the end of the turn. Any process may continue it. */
interface TurnReleased extends InInvocation {
  type: "turn.released";
  owner: string;
  reason: "cancelled" | "failed" | "stopped";
}

interface ByAgent extends InInvocation {
  agent: string;
  /** The path to this run of the agent: the agents that run it, and their rounds. */
  path: string;
  /** The branch of a `parallel` that the run belongs to. */
  branch?: string;
}

/** The agent's `beforeAgent` callbacks ran. If there are items, they are the answer, and the agent does not run. */
interface AgentBegan extends ByAgent {
  type: "agent.began";
}

/** The model's answer, after the callbacks. */
interface ModelAnswered extends ByAgent {
  type: "model.answered";
  items: Item[];
  /** The model's name; absent if a callback gave the answer. */
  model?: string;
  usage?: Usage;
  /** The other fields of the server's answer. */
  response?: { [field: string]: Json };
  /** The model's failure, if `onModelError` answered in its place. */
  failure?: { code: ErrorCode; message: string };
  /** The model's complete response, if `afterModel` changed it. */
  raw?: { [field: string]: Json };
}

/** Calls with external effects are about to run. If their results are missing later, the calls are not repeated. */
interface ToolsStarted extends ByAgent {
  type: "tools.started";
  calls: string[];
}

/** The results of all calls in one answer. */
interface ToolsAnswered extends ByAgent {
  type: "tools.answered";
  items: Item[];
  failed?: { call: string; code: ErrorCode; message: string }[];
  /** Lines that tools logged. */
  log?: { call: string; lines: string[] }[];
  /** Errors thrown by tools and by the callbacks around them. */
  thrown?: (Thrown & { call: string })[];
  /** Writes from successful calls that could not be merged, because others changed the same value. */
  refused?: { call: string; path: string; message: string }[];
  /** The agent that continues the conversation. */
  transfer?: string;
  /** The loop around the agent ends. */
  escalate?: true;
}

/** The agent's `afterAgent` callbacks ran. `last` marks the end of the invocation. */
interface AgentEnded extends ByAgent {
  type: "agent.ended";
  outcome: AgentOutcome;
  last?: true;
}

/** A step failed and left no other trace. */
interface AgentFailed extends ByAgent {
  type: "agent.failed";
  step: "beforeAgent" | "model" | "tools" | "afterAgent";
  error: { code: ErrorCode; message: string };
  thrown?: Thrown;
}

/** How an agent's run ended. The last four mean that a limit was reached. */
export type AgentOutcome =
  "answered" | "replaced" | "transferred" | "escalated" | "steps" | "tokens" | "seconds" | "empty";

export type AgentEvent =
  InvocationBegan | AgentBegan | ModelAnswered | ToolsStarted | ToolsAnswered | AgentEnded | AgentFailed;

export type Event =
  | Opened
  | Seeded
  | Called
  | Claimed
  | Settled
  | Verified
  | VerifyFailed
  | Rewound
  | Updated
  | Closed
  | SharedChanged
  | AgentEvent
  | TurnRenewed
  | TurnTaken
  | TurnReleased;
export type EventOf<Type extends Event["type"]> = Extract<Event, { type: Type }>;

/** For each event type, the kinds of log that contain it. */
const logsWith: { readonly [Type in Event["type"]]: "all" | "episodes" | "conversations" | "shared state" } = {
  "session.opened": "all",
  "session.seeded": "episodes",
  "tool.called": "episodes",
  "tool.claimed": "episodes",
  "tool.settled": "episodes",
  "session.verified": "episodes",
  "verify.failed": "episodes",
  "session.updated": "conversations",
  "session.rewound": "all",
  "session.closed": "all",
  "invocation.began": "conversations",
  "turn.taken": "conversations",
  "turn.renewed": "conversations",
  "turn.released": "conversations",
  "agent.began": "conversations",
  "model.answered": "conversations",
  "tools.started": "conversations",
  "tools.answered": "conversations",
  "agent.ended": "conversations",
  "agent.failed": "conversations",
  "shared.changed": "shared state",
};

export const eventTypes = Object.keys(logsWith) as Event["type"][];

/** Returns whether sessions of a kind can have events of a type. */
export const isEventOf = (kind: "episodes" | "conversations", type: Event["type"]): boolean =>
  logsWith[type] === kind || logsWith[type] === "all";

/** An event with its version in the log. */
export type NumberedEvent = Event & { version: number };

/** Returns whether an event only records a verify and changes nothing. */
export const isOfVerify = ({ type }: Event): boolean => type === "session.verified" || type === "verify.failed";

/**
 * Returns the key for an event that a log may contain only once. Call ids are unique per episode, because models
 * restart their numbering in each episode.
 */
export function eventKey(event: Event): string | undefined {
  switch (event.type) {
    case "session.seeded":
      return event.call === undefined ? undefined : seedKey(event.call);
    case "tool.called":
      return event.call === undefined ? undefined : callKey(event.episode, event.call);
    case "tool.claimed":
      return callKey(event.episode, event.call);
    case "tool.settled":
      return settledKey(event.episode, event.call);
    case "session.verified":
      return verifiedKey(event.judged, event.digest);
    case "verify.failed":
      return `failed ${verifiedKey(event.judged, event.digest)}`;
    case "invocation.began":
      return event.call === undefined ? undefined : turnKey(event.call);
    case "session.updated":
      return event.call === undefined ? undefined : updateKey(event.call);
    default:
      return undefined;
  }
}

export const callKey = (episode: number, call: string): string => `call ${episode} ${call}`;
export const settledKey = (episode: number, call: string): string => `settled ${episode} ${call}`;
export const seedKey = (call: string): string => `seed ${call}`;
export const turnKey = (call: string): string => `turn ${call}`;
export const updateKey = (call: string): string => `update ${call}`;
export const verifiedKey = (judged: number, digest: string): string => `verified ${judged} ${digest}`;

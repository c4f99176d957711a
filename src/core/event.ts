// Events: everything that can happen to a session, one closed union. A log is a list of these and of nothing else.
import type { Delta } from "./delta.ts";
import type { ErrorCode } from "./errors.ts";
import type { Json } from "./json.ts";
import type { Item, Usage } from "./model.ts";

/** Why a session ended. */
export type EndReason = "closed" | "idle" | "age" | "capacity";

/** What a call gave: what the tool returned, or why it did not. */
export type Outcome =
  { ok: true; output: Json } | { ok: false; error: { code: ErrorCode; message: string; detail?: Json } };

/** What verify gave: the reward, and whatever else the environment's verify returned beside it. */
export type Verdict = { reward: number; [detail: string]: Json };

/** The random numbers of an episode. */
export interface Randomness {
  seed: number;
  /** The number of calls that have drawn from it; `draws` in the code. Stored under this name since the first version. */
  turn: number;
}

export type Labels = { [name: string]: Json };

/** How long an owner may be silent before others may take over, in milliseconds. */
export interface Lease {
  owner: string;
  lapsesAfter: number;
}

/** A turn that is not over: one message to an agent, run to its end. */
export interface OpenTurn {
  invocation: string;
  /** The agent that answers. */
  agent: string;
  /** The version of its `invocation.began`. */
  began: number;
  call?: string;
  /** Who runs it. Without one, anybody may continue it. */
  lease?: Lease;
}

interface EventBase {
  /** When it was committed, in milliseconds since 1970; never before the event ahead of it. */
  at: number;
  /** What it changed in the state; absent if nothing. */
  delta?: Delta;
}

interface Began {
  /** What its handler took for the time, if that is not `at`. */
  began?: number;
}

/** The first event of every log. A forked session starts with all that its parent was at that version. */
interface Opened extends EventBase {
  type: "session.opened";
  environment: string;
  randomness: Randomness;
  labels?: Labels;
  /** `at`: when it was forked, if the event is a copy of the parent's. */
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
  /** What the caller wants to find this episode by: the id of a rollout, of an attempt. */
  labels?: Labels;
}

/** A call with its answer. `run` is there if it ran beside others: the version it read, and the seed it drew from. */
interface Called extends EventBase, Began {
  type: "tool.called";
  episode: number;
  call?: string;
  tool: string;
  input: Json;
  outcome: Outcome;
  log?: string[];
  run?: { version: number; seed: number };
}

/** An external call is about to run. It is in doubt after `until` if it was not settled. */
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
}

/** A verdict on the state at a version. */
interface Verified extends EventBase {
  type: "session.verified";
  judged: number;
  /** The episode of that version, if it is not the one that runs. */
  episode?: number;
  response?: Json;
  /** The task it was judged by, if that is not the episode's. */
  task?: Json;
  /** Stands for the response and the task in the event's key. */
  digest: string;
  verdict: Verdict;
}

/** The session is again what it was at version `to`. */
interface Rewound extends EventBase {
  type: "session.rewound";
  to: number;
  episode: number;
  task: Json | null;
  randomness: Randomness;
  labels?: Labels;
  /** Of a conversation: who spoke at that version, and the turn that was open. Older versions did not write it. */
  conversation?: { speaker?: string; turn?: OpenTurn };
}

interface Closed extends EventBase {
  type: "session.closed";
  reason: EndReason;
}

/** The state of a conversation was changed outside of a turn. */
interface Updated extends EventBase {
  type: "session.updated";
  shared?: Delta;
  call?: string;
}

/** In the log of a user's or an app's state: a session changed it. */
interface SharedChanged extends EventBase {
  type: "shared.changed";
  session: string;
}

/** What all events of an invocation have: one user turn of an agent, run to its end. */
interface InInvocation extends EventBase {
  invocation: string;
  /** What it changed in state that is shared: of a user or of the app, by keys that start with `user:` or `app:`. */
  shared?: Delta;
  /** What it adds to the conversation. */
  items?: Item[];
  /** JSON Pointers of values that others changed at the same time, and that it replaced. */
  overwrote?: string[];
}

/** A message of the user. `agent` is the one that answers. */
interface InvocationBegan extends InInvocation {
  type: "invocation.began";
  agent: string;
  items: Item[];
  /** The id of the turn: a repeat with the same digest of message and state continues it, or gets its result. */
  call?: string;
  digest?: string;
  lease?: Lease;
}

/** The owner of a turn is still there. */
interface TurnRenewed extends InInvocation {
  type: "turn.renewed";
  owner: string;
}

/** Another owner continues a turn. */
interface TurnTaken extends InInvocation {
  type: "turn.taken";
  lease?: Lease;
  /** The owner before. */
  from?: string;
}

/** The owner stopped before the end: anybody may continue the turn. */
interface TurnReleased extends InInvocation {
  type: "turn.released";
  owner: string;
  reason: "cancelled" | "failed" | "stopped";
}

interface ByAgent extends InInvocation {
  agent: string;
  /** Which run of it: agents that run others, or run again, make a path. */
  path: string;
  /** Among agents that ran side by side, the one it belongs to. */
  branch?: string;
}

/** Its `beforeAgent` callbacks ran. With items they answered in its place. */
interface AgentBegan extends ByAgent {
  type: "agent.began";
}

/** The model's answer, as the callbacks left it. */
interface ModelAnswered extends ByAgent {
  type: "model.answered";
  items: Item[];
  /** Which model; absent if a callback answered in its place. */
  model?: string;
  usage?: Usage;
  /** What the server said beside the items. */
  response?: { [field: string]: Json };
  /** The failure of the model in whose place `onModelError` answered. */
  failure?: { code: ErrorCode; message: string };
  /** The whole response of the model, where `afterModel` changed it. */
  raw?: { [field: string]: Json };
}

/** Calls that touch the world are about to run: without results they are not run again. */
interface ToolsStarted extends ByAgent {
  type: "tools.started";
  calls: string[];
}

/** The results of all calls of one answer. */
interface ToolsAnswered extends ByAgent {
  type: "tools.answered";
  items: Item[];
  failed?: { call: string; code: ErrorCode; message: string }[];
  /** What tools logged. */
  log?: { call: string; lines: string[] }[];
  /** Writes of calls that stand, but could not be placed: others changed what they change a part of. */
  refused?: { call: string; path: string; message: string }[];
  /** The agent that goes on. */
  transfer?: string;
  /** The loop around it ends. */
  escalate?: true;
}

/** Its `afterAgent` callbacks ran. `last`: with it the invocation is over. */
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
}

/** How a run of an agent ended. The last four: the limit that it reached. */
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
  | Rewound
  | Updated
  | Closed
  | SharedChanged
  | AgentEvent
  | TurnRenewed
  | TurnTaken
  | TurnReleased;
export type EventOf<Type extends Event["type"]> = Extract<Event, { type: Type }>;

/** An event with its place in the log. */
export type NumberedEvent = Event & { version: number };

/**
 * What may be in a log only once: the idempotency record. Call ids are those of one episode, because models number
 * their calls anew in each.
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

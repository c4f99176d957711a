// Events: everything that can happen to a session, as one closed union. A log is a list of events.
import type { Delta } from "./delta.ts";
import type { ErrorCode } from "./errors.ts";
import type { Json } from "./json.ts";
import type { FunctionCall, Item, ToolSchema, Usage } from "./model.ts";
import type { ModelExchange } from "./model-exchange.ts";

/** Why a session ended. */
export type EndReason = "closed" | "idle" | "age" | "capacity";

/** The result of a call: the tool's output, or an error. */
export type Outcome =
  { ok: true; output: Json } | { ok: false; error: { code: ErrorCode; message: string; detail?: Json } };

/** An error that an author's code threw. It is recorded for people; no model reads it. */
export interface Thrown {
  /** The error's name and message, as in "TypeError: x is undefined". */
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
  /** The number of calls that drew random numbers. The first version of Holdfast chose the name of this field. */
  turn: number;
}

export type Labels = { [name: string]: Json };

/** The owner of a turn. Another process may take the turn over after this many milliseconds without a commit. */
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
  /** The id of the request that the turn last answered: its message, or the client's newest results. */
  call?: string;
  /** The process that runs the turn. If there is none, any process may continue the turn. */
  lease?: Lease;
  /** The version of the newest `client.answered` event. */
  answered?: number;
  /** Ids of the calls that the turn waits for. The client runs them and sends their results. */
  waiting?: string[];
  /** True if the turn failed or was cancelled while it waited. Then a new message may replace it. */
  givenUp?: true;
}

interface EventBase {
  /** Time of the commit, in milliseconds since 1970. It is never earlier than that of the previous event. */
  at: number;
  /** The event's change to the state; absent if nothing changed. */
  delta?: Delta;
}

interface Began {
  /** The time that the event's handler saw, if it differs from `at`. */
  began?: number;
}

/** The first event of every log. A forked session starts with its parent's state at that version. */
interface Opened extends EventBase {
  type: "session.opened";
  environment: string;
  randomness: Randomness;
  labels?: Labels;
  /** `at` is the time of the fork, if the event was copied from the parent. */
  parent?: { session: string; version: number; episode: number; task: Json | null; at?: number };
  /** A conversation that stores `user:` and `app:` keys in its own state and does not share them. */
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

/** A harness asked a model: the request and its answer. The state does not change. */
interface ModelCalled extends EventBase, Began, ModelExchange {
  type: "model.called";
  episode: number;
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
  /** The request was refused, so verify did not run. The verdict has a reward of 0 and the reason. */
  refused?: true;
  verdict: Verdict;
}

/** The environment's verify threw. There is no verdict, so verify may run again. Only its first failure is recorded. */
interface VerifyFailed extends EventBase {
  type: "verify.failed";
  judged: number;
  /** The episode that the version belongs to, if it is not the current one. */
  episode?: number;
  /** Digest of the request, as in `session.verified`. */
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
  /** For a conversation: its agent and its open turn at that version. Absent in logs of older versions. */
  conversation?: { speaker?: string; turn?: OpenTurn };
}

interface Closed extends EventBase {
  type: "session.closed";
  reason: EndReason;
}

/** A change to a conversation's state or labels outside a turn. */
interface Updated extends EventBase {
  type: "session.updated";
  shared?: Delta;
  /** The labels that changed. null removes a label. */
  labels?: Labels;
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
  /** JSON Pointers to replaced values that other writers changed at the same time. */
  overwrote?: string[];
}

/** A request from the client. `lease` names the process that runs the turn. */
interface Requested extends InInvocation {
  items: Item[];
  /** The request's id. A retry with the same digest of message and state continues the turn or returns its result. */
  call?: string;
  digest?: string;
  lease?: Lease;
  /** The tools that the client runs. They replace the tools of earlier requests. The turn waits when a model calls one. */
  tools?: ToolSchema[];
  /** Labels of the request, which the client can read later. */
  labels?: Labels;
}

/** A message from the user. `agent` answers it. */
interface InvocationBegan extends Requested {
  type: "invocation.began";
  agent: string;
}

/** The client's results of the calls that the turn waited for, followed by the messages sent with the results. */
interface ClientAnswered extends Requested {
  type: "client.answered";
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
  /** Absent if a waiting turn was cancelled: no process runs it. */
  owner?: string;
  /** "waiting": the turn waits for results from the client. */
  reason: "cancelled" | "failed" | "stopped" | "waiting";
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
  /** The model's failure, if `onModelError` provided the answer. */
  failure?: { code: ErrorCode; message: string };
  /** The model's complete response as it was before `afterModel` changed it. */
  raw?: { [field: string]: Json };
}

/** Calls with external effects are about to run. If their results are missing later, the calls are not repeated. */
interface ToolsStarted extends ByAgent {
  type: "tools.started";
  calls: string[];
}

/**
 * The results of all calls in one answer. If the client runs some of the calls, a first event has the other results,
 * and a second event has the client's results.
 */
interface ToolsAnswered extends ByAgent {
  type: "tools.answered";
  items: Item[];
  /** The calls whose results the client sends. */
  waiting?: FunctionCall[];
  failed?: { call: string; code: ErrorCode; message: string }[];
  /** Log lines from tools. */
  log?: { call: string; lines: string[] }[];
  /** Errors thrown by tools and by the callbacks around them. */
  thrown?: (Thrown & { call: string })[];
  /** Writes from successful calls that could not be merged, because others changed the same value. */
  refused?: { call: string; path: string; message: string }[];
  /** The agent that continues the conversation. */
  transfer?: string;
  /** True if the surrounding loop ends. */
  escalate?: true;
}

/** The agent's `afterAgent` callbacks ran. `last` marks the end of the invocation. */
interface AgentEnded extends ByAgent {
  type: "agent.ended";
  outcome: AgentOutcome;
  last?: true;
}

/** A step failed. Its changes were discarded. */
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
  | InvocationBegan
  | ClientAnswered
  | AgentBegan
  | ModelAnswered
  | ToolsStarted
  | ToolsAnswered
  | AgentEnded
  | AgentFailed;

export type Event =
  | Opened
  | Seeded
  | Called
  | Claimed
  | Settled
  | ModelCalled
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
  "model.called": "episodes",
  "session.verified": "episodes",
  "verify.failed": "episodes",
  "session.updated": "conversations",
  "session.rewound": "all",
  "session.closed": "all",
  "invocation.began": "conversations",
  "client.answered": "conversations",
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

/** Returns whether an event only records a verify or a model's answer, and changes no state. */
export const isAside = ({ type }: Event): boolean =>
  type === "session.verified" || type === "verify.failed" || type === "model.called";

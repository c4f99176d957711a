// The engine's contract: the operations on sessions, both episodes of an environment and conversations with an agent.
// Protocols, agents and commands use it.
import type { Entered, EnterOptions, RecordedTurn } from "./agent-sessions.ts";
import type { AnyEnvironment, Progress, StateOf, TaskOf, ToolInput, ToolName, ToolOutput } from "./environment.ts";
import type { Event, Labels, NumberedEvent, Outcome, Thrown, Verdict } from "./event.ts";
import type { Json } from "./json.ts";
import type { ModelRequest, ModelResponse } from "./model.ts";
import type { ModelLimits } from "./model-exchange.ts";
import type { AgentState } from "./shared-state.ts";
import type { Filter, Listed } from "./store.ts";

/** A session without its state. */
export interface SessionInfo extends Listed {
  /** The episode number; 0 if the session was never seeded. */
  episode: number;
  task: Json | null;
  /** For an episode: the labels in its seed. For a conversation: `title` is its title. */
  labels: Labels;
  /** For a conversation: its user. */
  user?: string;
  /** For a conversation: the unfinished turn. `waiting`: ids of calls whose results the client must send. */
  turn?: { invocation: string; agent: string; call?: string; waiting?: string[] };
}

export interface OpenSession {
  /**
   * An id from `newSession`, for servers that send the id to the client before they open the session. Default: a new
   * id.
   */
  session?: string | undefined;
  /** Labels to find the session by. */
  labels?: Labels | undefined;
}

export interface OpenOptions<Task> extends OpenSession {
  /** Seeds the session in the same commit. */
  task?: Task | undefined;
  /** The random seed of the episode. Default: a new one. */
  randomSeed?: number | undefined;
}

/** The input is optional if none of its fields is required. */
export type CallArguments<Input, Options = CallOptions> = object extends Input
  ? [input?: Input, options?: Options]
  : [input: Input, options?: Options];

export interface SeedOptions {
  /** The random seed of the episode. Default: a new one. */
  randomSeed?: number;
  /** An id for this seed. A retry with the same id returns the recorded answer. */
  call?: string;
  /** Labels to find this episode by. */
  labels?: Labels;
  /**
   * Refuses the seed with `episode_in_flight` if the session is already seeded, unless this is a retry of that seed.
   */
  first?: boolean;
}

export interface CallOptions {
  /** The call's id. A retry with the same arguments returns the recorded answer and changes nothing. */
  call?: string;
  /** The caller's episode. A call that arrives after the next seed is refused with `episode_ended`. */
  episode?: number;
  /**
   * For a caller without call ids: the version in the last answer that it received. If the only newer event is the same
   * call, this is a retry, and the caller gets the recorded answer.
   */
  seen?: number;
  /** Refuses the call with `session_unseeded` if the session was never seeded, even if the environment allows it. */
  seeded?: boolean;
  /** Cancels the call. A call that is not committed yet leaves no trace. */
  signal?: AbortSignal;
  /** Receives the tool's reports while it runs. If the tool runs again after a conflict, it reports again. */
  onProgress?: ((progress: Progress) => void) | undefined;
}

/** The result of a call. `ok: false` is for the model to read: its own mistakes, and the tool's refusals. */
export type Answer<ToolOutput = Json> = ({ ok: true; output: ToolOutput } | Extract<Outcome, { ok: false }>) & {
  session: string;
  /** The version after the call. */
  version: number;
  /** The call id was used before, and this is the recorded answer. */
  repeated: boolean;
  /** The session was never seeded, so the tool saw the defaults from the state's schema. */
  unseeded: boolean;
  /** The error in the tool's code. Not for the model. */
  thrown?: Thrown;
};

export interface Seeded {
  session: string;
  version: number;
  episode: number;
  repeated: boolean;
}

export interface VerifyOptions {
  /** The version to verify; by default the newest. */
  version?: number;
  /** The agent's answer, for environments that use it. */
  response?: unknown;
  /**
   * The task to verify against; by default the episode's. A function receives the episode's task and may return a
   * promise. If it throws a HoldfastError or returns an invalid task, verify does not run, and the log records the
   * refused request.
   */
  task?: unknown;
  signal?: AbortSignal;
}

/** The verdict with its session, version and episode. */
export interface Verification {
  reward: number;
  /** The result of verify: the reward, and the author's own fields. */
  verdict: Verdict;
  session: string;
  version: number;
  episode: number;
  /** The number of times the session was seeded again. If the caller did not do this, another client did. */
  reseeds: number;
  /**
   * The number of verdicts on this episode, including this verdict and refused requests. If it exceeds the caller's own
   * requests, another client verified too.
   */
  verdicts: number;
}

/** The reward that verify would return at a version; null if it failed there. */
export interface StepReward {
  version: number;
  reward: number | null;
  error?: string;
}

export interface AskModelOptions {
  /** The model's name, for the log. */
  model: string;
  /** Asks the model. Called at most once, and not for a repeat. The signal aborts when the episode ends. */
  respond(request: ModelRequest, signal: AbortSignal): Promise<ModelResponse>;
  /** The request's id. A repeat with the same request returns the recorded answer. */
  call?: string | undefined;
  /** The client says that it repeats a request. It gets the newest answer to an equal request, if there is one. */
  isRepeat?: boolean | undefined;
  limits?: ModelLimits | undefined;
}

/** A model's answer, and the version of its event. */
export interface ModelAnswer {
  session: string;
  version: number;
  /** When the answer was committed, in milliseconds since 1970. */
  at: number;
  response: ModelResponse;
  /** The answer was recorded before, and the model was not asked again. */
  repeated: boolean;
}

export interface ForkOptions {
  /** The version to start from; by default the newest. */
  version?: number;
  /** The id of the new session, as in `open`. By default a new one. */
  session?: string | undefined;
}

export interface ListFilter extends Omit<Filter, "environment"> {
  /** Only conversations of this user. */
  user?: string;
  /** Only sessions that have all of these labels. */
  labels?: Labels;
}

/** A saved session. */
export interface SavedSession {
  /** The environment, or `agent:APP`. Older files have only `app`. */
  of?: string;
  session: string;
  events: Event[];
  /** For a conversation: its app and user, and the shared state at the time of saving. */
  app?: string;
  user?: string;
  shared?: AgentState;
}

/** The result of a replay: the same, or the first event that differs. */
export type Replayed =
  | { same: true; events: number }
  | {
      same: false;
      version: number;
      /** The part that differs. For a call: its outcome or the state. For a conversation: an event field. */
      what: "outcome" | "state" | "event";
      recorded: Json;
      replayed: Json;
      message: string;
    };

/**
 * The key of an agent's replay function. The engine cannot import the agent layer, so it calls the function by this
 * key.
 */
export const replaying: unique symbol = Symbol.for("holdfast.replaying");

/** An object that can replay a conversation: an agent. */
export interface Replayable {
  /** Runs a saved conversation again in an empty engine, and compares the events. */
  [replaying](saved: SavedConversation, scratch: Conversations): Promise<Replayed>;
}

/** The operations on every session. `Open` is the type of the options for `open`. */
export interface SessionsBase<State, Open extends OpenSession = OpenSession> {
  /** The numbers of cache hits and cache misses. */
  readonly cache: { readonly hits: number; readonly misses: number; readonly bytes: number };
  /**
   * Returns a new id that cannot be guessed. Stores nothing.
   * @example const session = sessions.newSession();
   */
  newSession(): string;
  /**
   * Opens a session.
   * @example const { session } = await sessions.open();
   */
  open(options?: Open): Promise<SessionInfo>;
  /**
   * Returns a session without its state. Throws `session_not_found`.
   * @example const { version, ended } = await sessions.info(session);
   */
  info(session: string): Promise<SessionInfo>;
  /**
   * Like `info`; returns undefined for a missing session.
   * @example if (!(await sessions.peek(session))) await sessions.open({ session });
   */
  peek(session: string): Promise<SessionInfo | undefined>;
  /**
   * Lists sessions in the order they were opened, or by idle time. Conversations and lists by label have the complete
   * info.
   * @example for await (const { session } of sessions.list({ open: true, labels: { topic: "bill" } })) console.log(session);
   */
  list(filter?: ListFilter): AsyncIterable<Listed & Partial<SessionInfo>>;
  /**
   * Returns a copy of the state at a version, by default the newest.
   * @example const before = await sessions.state(session, 3);
   */
  state(session: string, version?: number): Promise<State>;
  /**
   * Returns the events after a version, in order.
   * @example for await (const event of sessions.events(session, { after: 3 })) console.log(event.type);
   */
  events(session: string, options?: { after?: number }): AsyncIterable<NumberedEvent>;
  /**
   * Opens a session that starts with this session's state at a version. The two sessions never affect each other.
   * @example const fork = await sessions.fork(session, { version: 3 });
   */
  fork(session: string, options?: ForkOptions): Promise<SessionInfo>;
  /**
   * Returns the session to a version, or a conversation to the point before a turn. This adds one event.
   * @example await sessions.rewind(session, 3);
   */
  rewind(session: string, to: number | { before: string }): Promise<SessionInfo>;
  /**
   * Runs the session again using only its log, and returns the first event that differs.
   * @example const replayed = await sessions.replay(session); // { same: true, events: 5 }
   */
  replay(session: string): Promise<Replayed>;
  /**
   * Returns the session with all its events, as data.
   * @example await writeFile("session.json", JSON.stringify(await sessions.save(session)));
   */
  save(session: string): Promise<SavedSession>;
  /**
   * Opens a session with the events of a saved one.
   * @example const { session } = await sessions.restore(saved);
   */
  restore(saved: SavedSession, session?: string): Promise<SessionInfo>;
  /**
   * Ends a session. Returns false if it had already ended or does not exist.
   * @example await sessions.close(session);
   */
  close(session: string): Promise<boolean>;
  /**
   * Immediately ends sessions that have exceeded a limit; this also happens periodically. Returns the number of ended
   * sessions.
   * @example const ended = await sessions.expire();
   */
  expire(): Promise<number>;
  /**
   * Refuses new work and waits for running work. If `within` is set, cancels running work after that many milliseconds.
   * The store stays open: the code that opened it closes it.
   * @example await sessions.stop({ within: 5000 });
   */
  stop(options?: { within?: number }): Promise<void>;
}

/** The sessions of an environment. Only these operations change them. */
export interface Episodes<E extends AnyEnvironment = AnyEnvironment> extends SessionsBase<
  StateOf<E>,
  OpenOptions<TaskOf<E>>
> {
  readonly environment: E;
  /**
   * Starts a new episode, which replaces the state. The old state stays readable at its version.
   * @example await sessions.seed(session, { start: 3, goal: 5 });
   */
  seed(session: string, task: TaskOf<E>, options?: SeedOptions): Promise<Seeded>;
  /**
   * Calls a tool. If the model made a mistake, the answer has `ok: false`; any other failure is thrown.
   * @example const { ok, version } = await sessions.call(session, "add", { by: 2 }, { call: "c1" });
   */
  call<Name extends ToolName<E>>(
    session: string,
    tool: Name,
    ...input: CallArguments<ToolInput<E, Name>>
  ): Promise<Answer<ToolOutput<E, Name>>>;
  /**
   * Asks a model for a harness that plays the episode. Commits the exchange as one event, which changes no state. Other
   * calls of the session run in the meantime. A verified episode is refused with `episode_over`.
   * @example const { response } = await sessions.askModel(session, { input }, { model: model.name, respond: model.respond });
   */
  askModel(session: string, request: ModelRequest, options: AskModelOptions): Promise<ModelAnswer>;
  /**
   * Scores the state. Changes nothing, and returns the same verdict for the same request.
   * @example const { reward } = await sessions.verify(session);
   */
  verify(session: string, options?: VerifyOptions): Promise<Verification>;
  /**
   * Returns the result of verify, without a response, at every version that changed the state since the first seed.
   * Records nothing. Verifies at most 1,000 versions, evenly spaced.
   * @example for (const { version, reward } of await sessions.rewards(session)) console.log(version, reward);
   */
  rewards(session: string, options?: { signal?: AbortSignal }): Promise<StepReward[]>;
}

export interface OpenConversation extends OpenSession {
  /** The conversation's user. Default "user". */
  user?: string | undefined;
  /** The initial state; keys that start with `user:` or `app:` are written to shared state. */
  state?: AgentState | undefined;
  /** Keeps `user:` and `app:` keys in the session itself and does not share them. */
  isolated?: boolean | undefined;
}

export interface ConversationFork extends ForkOptions {
  /** Keys to set in the state of the fork. */
  set?: AgentState;
}

/** A saved conversation. */
export type SavedConversation = SavedSession & Required<Pick<SavedSession, "app" | "user" | "shared">>;

/** The conversations of an app in a store. Any number of processes may use the same store. */
export interface Conversations extends SessionsBase<AgentState, OpenConversation> {
  readonly app: string;
  /** Set if these are the conversations of one user only. */
  readonly user?: string;
  /**
   * Opens a conversation with the events of this conversation up to a version.
   * @example const fork = await sessions.fork(session, { version: 3, set: { room: 12 } });
   */
  fork(session: string, options?: ConversationFork): Promise<SessionInfo>;
  /**
   * Runs a conversation again with its agent, on an in-memory store, and returns the first event that differs. Messages
   * and models' answers come from the log. Callbacks and tools run, except tools with `effects: "external"`.
   * @example const replayed = await sessions.replay(session, { agent });
   */
  replay(session: string, options?: { agent?: Replayable }): Promise<Replayed>;
  /**
   * Returns the conversation with all its events and the shared state, as data.
   * @example const saved = await sessions.save(session);
   */
  save(session: string): Promise<SavedConversation>;
  /**
   * Changes the state outside a turn, with one event. The function may run again if others change the state in the
   * meantime. A retry with the same `call` changes nothing.
   * @example await sessions.update(session, (state) => void (state["room"] = 12), { call: "u1" });
   */
  update(session: string, change: (state: AgentState) => void, options?: { call?: string }): Promise<SessionInfo>;
  /**
   * Sets labels outside a turn, with one event. null removes a label, and the other labels stay. The label `title` is
   * the conversation's title. A rewind keeps the labels.
   * @example await sessions.label(session, { title: "The bill of May", topic: "bill" });
   */
  label(session: string, labels: Labels): Promise<SessionInfo>;
  /**
   * Cancels the turn that is running, in this process or in another process. Another process notices at its next
   * commit. Returns false if no turn is running, or only a turn other than `invocation`. Committed steps stay.
   * @example await sessions.cancel(session);
   */
  cancel(session: string, options?: { invocation?: string | undefined }): Promise<boolean>;
  /**
   * Enters a conversation for one run. Until the run leaves, no other run in this process commits to the conversation.
   * @internal
   */
  enter(session: string, options?: EnterOptions): Promise<Entered | RecordedTurn>;
}

/** The sessions of an environment. */
export type Sessions<E extends AnyEnvironment = AnyEnvironment> = Episodes<E>;

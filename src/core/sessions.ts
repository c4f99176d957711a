// The contract of the engine: what can be done with sessions, be they episodes of an environment or conversations with an
// agent. Protocols, agents and commands are given one of these.
import type { Entered, EnterOptions, RecordedTurn } from "./agent-sessions.ts";
import type { AnyEnvironment, StateOf, TaskOf, ToolInput, ToolName, ToolOutput } from "./environment.ts";
import type { Event, Labels, NumberedEvent, Outcome, Verdict } from "./event.ts";
import type { Json } from "./json.ts";
import type { AgentState } from "./shared-state.ts";
import type { Filter, Listed } from "./store.ts";

/** A session without its state. */
export interface SessionInfo extends Listed {
  /** The number of the episode; 0 if it was never seeded. */
  episode: number;
  task: Json | null;
  /** Of an episode, the labels of its seed. */
  labels: Labels;
  /** Of a conversation: whose it is. */
  user?: string;
  /** Of a conversation: the turn that is not over. */
  turn?: { invocation: string; agent: string; call?: string };
}

export interface OpenSession {
  /** An id that `newSession` gave: for a server that hands it out before it is used. By default a new one. */
  session?: string | undefined;
  /** To find the session by. */
  labels?: Labels | undefined;
}

export interface OpenOptions<Task> extends OpenSession {
  /** Seeds the session in the same commit. */
  task?: Task | undefined;
  /** The seed of the episode's random numbers. */
  random?: number | undefined;
}

/** The input may be left out where nothing is required of it. */
export type CallArguments<Input> = object extends Input
  ? [input?: Input, options?: CallOptions]
  : [input: Input, options?: CallOptions];

export interface SeedOptions {
  random?: number;
  /** Makes a repeat return the recorded answer. */
  call?: string;
  /** What to find this episode by. */
  labels?: Labels;
}

export interface CallOptions {
  /** The id of the call. A repeat with the same arguments returns the recorded answer and changes nothing. */
  call?: string;
  /** The episode the caller is in: a call that arrives after the next seed is refused as `episode_ended`. */
  episode?: number;
  /**
   * Of a caller without call ids: the version that its last answer had. If the only newer event is this very call, made a
   * while ago, then its answer was lost on the way, and the caller gets it now.
   */
  seen?: number;
  /** Cancels the call. A call that is not committed yet leaves no trace. */
  signal?: AbortSignal;
}

/** What a call gives. `ok: false` is what the model should read: its own mistakes, and the tool's refusals. */
export type Answer<ToolOutput = Json> = ({ ok: true; output: ToolOutput } | Extract<Outcome, { ok: false }>) & {
  session: string;
  /** The version after the call. */
  version: number;
  /** The call id was seen before, and this is what was answered then. */
  repeated: boolean;
  /** The session was never seeded: the tool saw the defaults of the state's schema. */
  unseeded: boolean;
};

export interface Seeded {
  session: string;
  version: number;
  episode: number;
  repeated: boolean;
}

export interface VerifyOptions {
  /** The version to judge; by default the newest. */
  version?: number;
  /** What the agent answered, for environments that look at it. */
  response?: unknown;
  /** The task to judge by; by default that of the episode. */
  task?: unknown;
  signal?: AbortSignal;
}

/** The verdict, and what it is about. */
export type Verification = Verdict & {
  session: string;
  version: number;
  episode: number;
  /** How often the session was seeded again: more than the caller did means that somebody else has. */
  reseeds: number;
  /** How many verdicts the log has of this episode, this one included: one that was not asked for is somebody else's. */
  verdicts: number;
};

/** What verify would give at a version; null if it failed there. */
export interface StepReward {
  version: number;
  reward: number | null;
  error?: string;
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

/** A session as a file. */
export interface SavedSession {
  /** The environment, or `agent:APP`. Older files have only `app`. */
  of?: string;
  session: string;
  events: Event[];
  /** Of a conversation: its app and user, and the shared state when it was saved. */
  app?: string;
  user?: string;
  shared?: AgentState;
}

/** The result of running a log again: the same, or the first event that differs. */
export type Replayed =
  | { same: true; events: number }
  | {
      same: false;
      version: number;
      /** Which part differs: of a call its outcome, or the state; of a conversation a field of the event. */
      what: "outcome" | "state" | "event";
      recorded: Json;
      replayed: Json;
      message: string;
    };

/** The key under which an agent carries its replay. The engine calls it: it cannot import agents. */
export const replaying: unique symbol = Symbol.for("holdfast.replaying");

/** Code that can replay a conversation: an agent. */
export interface Replayable {
  /** Runs a saved conversation again in an empty engine, and compares. */
  [replaying](saved: SavedConversation, scratch: Conversations): Promise<Replayed>;
}

/** The verbs of every session. `State` is the state it has, `Open` what it may be opened with. */
export interface SessionsBase<State, Open extends OpenSession = OpenSession> {
  /** How often a session was in the process when it was needed, and how often it had to be loaded. */
  readonly cache: { readonly hits: number; readonly misses: number; readonly bytes: number };
  /** A new id, which nobody can guess. Nothing is stored. */
  newSession(): string;
  open(options?: Open): Promise<SessionInfo>;
  info(session: string): Promise<SessionInfo>;
  /** Like `info`. Gives undefined if there is no such session. */
  peek(session: string): Promise<SessionInfo | undefined>;
  /** Sessions in the order of opening, or by idle time. Conversations, and lists by label, give the whole info. */
  list(filter?: ListFilter): AsyncIterable<Listed & Partial<SessionInfo>>;
  /** A copy of the state, at a version or the newest. */
  state(session: string, version?: number): Promise<State>;
  /** The events after a version, in order. */
  events(session: string, options?: { after?: number }): AsyncIterable<NumberedEvent>;
  /** A new session that starts as this one was at a version. Neither ever affects the other. */
  fork(session: string, options?: ForkOptions): Promise<SessionInfo>;
  /** Makes the session what it was at a version, or before a turn of a conversation, by one more event. */
  rewind(session: string, to: number | { before: string }): Promise<SessionInfo>;
  /** Runs the log again on nothing but the log, and names the first event that differs. */
  replay(session: string): Promise<Replayed>;
  /** The session with all its events, as data. */
  save(session: string): Promise<SavedSession>;
  /** A new session with the events of a saved one. */
  restore(saved: SavedSession, session?: string): Promise<SessionInfo>;
  /** Ends a session. Closing twice is fine; false if it had ended before, or never was. */
  close(session: string): Promise<boolean>;
  /** Ends what is over its limits now; otherwise done from time to time. Gives the number of sessions that it ended. */
  expire(): Promise<number>;
  /**
   * Refuses new work and waits for running work; with `within`, cancels it after so many milliseconds. The store stays
   * open: who opened it closes it.
   */
  stop(options?: { within?: number }): Promise<void>;
}

/** The sessions of an environment. Every change to one of them goes through here. */
export interface Episodes<E extends AnyEnvironment = AnyEnvironment> extends SessionsBase<
  StateOf<E>,
  OpenOptions<TaskOf<E>>
> {
  readonly environment: E;
  /** Starts a new episode: the state is replaced outright, the old one stays readable at its version. */
  seed(session: string, task: TaskOf<E>, options?: SeedOptions): Promise<Seeded>;
  /** Calls a tool. A mistake of the model is an answer with `ok: false`; what it cannot help is thrown. */
  call<Name extends ToolName<E>>(
    session: string,
    tool: Name,
    ...input: CallArguments<ToolInput<E, Name>>
  ): Promise<Answer<ToolOutput<E, Name>>>;
  /** Scores the state. Changes nothing, and gives the same verdict when asked again. */
  verify(session: string, options?: VerifyOptions): Promise<Verification>;
  /**
   * What verify would give at every version that changed the state, from the first seed on, without a response. It is
   * recorded nowhere. Of more than 1,000 versions that many are judged, spread evenly.
   */
  rewards(session: string, options?: { signal?: AbortSignal }): Promise<StepReward[]>;
}

export interface OpenConversation extends OpenSession {
  /** Whose it is. Default "user". */
  user?: string | undefined;
  /** The initial state; keys that start with `user:` or `app:` go to shared state. */
  state?: AgentState | undefined;
  /** Keeps `user:` and `app:` keys in the session itself: nothing is shared with others. */
  isolated?: boolean | undefined;
}

export interface ConversationFork extends ForkOptions {
  /** Keys to set in the state of the fork. */
  set?: AgentState;
}

/** A conversation as a file. */
export type SavedConversation = SavedSession & Required<Pick<SavedSession, "app" | "user" | "shared">>;

/** The conversations of an app in a store. Any number of processes may have one on the same store. */
export interface Conversations extends SessionsBase<AgentState, OpenConversation> {
  readonly app: string;
  fork(session: string, options?: ConversationFork): Promise<SessionInfo>;
  /**
   * Runs a conversation again with its agent, on a store in memory, and names the first event that differs. Messages and
   * the answers of models come from the log; callbacks and tools run, except tools with `effects: "external"`.
   */
  replay(session: string, options?: { agent?: Replayable }): Promise<Replayed>;
  save(session: string): Promise<SavedConversation>;
  /**
   * Changes the state outside of a turn, by one event. The function may run again if others change the state meanwhile. A
   * repeat with the same `call` changes nothing.
   */
  update(session: string, change: (state: AgentState) => void, options?: { call?: string }): Promise<SessionInfo>;
  /** The conversation in the hands of one run: nobody else in the process commits to it before it is left. */
  enter(session: string, options?: EnterOptions): Promise<Entered | RecordedTurn>;
}

/** The sessions of an environment. */
export type Sessions<E extends AnyEnvironment = AnyEnvironment> = Episodes<E>;

// The contract of the engine: what can be done with sessions. Protocols, agents and commands are given one of these.
import type { AnyEnvironment, StateOf, TaskOf, ToolInput, ToolName, ToolOutput } from "./environment.ts";
import type { Labels, NumberedEvent, Outcome, Verdict } from "./event.ts";
import type { Json } from "./json.ts";
import type { Filter, Listed } from "./store.ts";

/** What is known of a session without its state. */
export interface SessionInfo extends Listed {
  /** The number of the episode; 0 if it was never seeded. */
  episode: number;
  task: Json | null;
  /** Those of the episode. */
  labels: Labels;
}

export interface OpenOptions<Task> {
  /** An id that `newSession` gave: for a server that hands it out before it is used. By default a new one. */
  session?: string;
  /** Seeds the session in the same commit. */
  task?: Task;
  /** The seed of the episode's random numbers. */
  random?: number;
  labels?: Labels;
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
  session?: string;
}

/** The result of running a log again. */
export type Replayed =
  | { same: true; events: number }
  | { same: false; version: number; what: "outcome" | "state"; recorded: Json; replayed: Json };

/** The engine: every change to a session of one environment goes through it. */
export interface Sessions<E extends AnyEnvironment = AnyEnvironment> {
  readonly environment: E;
  /** How often a session was in the process when it was needed, and how often it had to be loaded. */
  readonly cache: { readonly hits: number; readonly misses: number };
  /** A new id, which nobody can guess. Nothing is stored. */
  newSession(): string;
  open(options?: OpenOptions<TaskOf<E>>): Promise<SessionInfo>;
  /** Starts a new episode: the state is replaced outright, the old one stays readable at its version. */
  seed(session: string, task: TaskOf<E>, options?: SeedOptions): Promise<Seeded>;
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
  /** A copy of the state, at a version or the newest. */
  state(session: string, version?: number): Promise<StateOf<E>>;
  info(session: string): Promise<SessionInfo>;
  events(session: string, options?: { after?: number }): AsyncIterable<NumberedEvent>;
  /** A new session that starts as this one was at a version. Neither ever affects the other. */
  fork(session: string, options?: ForkOptions): Promise<SessionInfo>;
  /** Makes the session what it was at a version, by one more event. */
  rewind(session: string, version: number): Promise<SessionInfo>;
  /** Runs the log again on nothing but the log, and names the first event that comes out differently. */
  replay(session: string): Promise<Replayed>;
  list(filter?: Omit<Filter, "environment">): AsyncIterable<Listed>;
  /** Ends a session. Closing twice is fine; false if it had ended before. */
  close(session: string): Promise<boolean>;
  /** Ends what is over its limits now; otherwise done from time to time. Gives the number of sessions that it ended. */
  expire(): Promise<number>;
  /** Waits for running calls and stops the clock. The store stays open: who opened it closes it. */
  stop(): Promise<void>;
}

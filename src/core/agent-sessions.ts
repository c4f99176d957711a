// The contract of an agent's engine: conversations as sessions, with state of their own, of a user and of the app.
import type { Conversation } from "./conversation.ts";
import type { Delta } from "./delta.ts";
import type { AgentEvent, EndReason, Event, NumberedEvent } from "./event.ts";
import type { AgentState } from "./shared-state.ts";
import type { View } from "./turn.ts";

export type { AgentState };

export interface AgentSessionInfo {
  session: string;
  user: string;
  version: number;
  opened: number;
  /** When its newest event happened. */
  touched: number;
  ended?: EndReason;
}

export interface OpenAgentSession {
  /** By default a new id. */
  session?: string | undefined;
  /** Whose it is. Default "user". */
  user?: string | undefined;
  /** The initial state; what is shared goes to where it is shared. */
  state?: AgentState | undefined;
}

export interface EnterOptions {
  signal?: AbortSignal | undefined;
  /** While another run has the session: wait for it (by default), or be refused as `session_busy`. */
  busy?: "wait" | "refuse" | undefined;
}

/** What is known of an event before it is committed. */
type Uncommitted<E> = E extends AgentEvent ? Omit<E, "at" | "delta" | "shared"> : never;
export type NewAgentEvent = Uncommitted<AgentEvent>;

/** Names the other session that changed a key, if one did. */
export type ChangedBy = (key: string) => string | undefined;

/** What a step comes to on the state as it is at the commit: its change, and the fields of its event that depend on it. */
export interface StepChange {
  delta: Delta;
  fields?: { [field: string]: unknown };
}

/** A session in the hands of one run: nobody else in the process commits to it before it is left. */
export interface Entered {
  readonly session: string;
  readonly user: string;
  /** As it is after the newest commit, with what is shared. Not to be changed. */
  readonly state: AgentState;
  /** Who speaks and which turn is open, as after the newest commit. */
  readonly conversation: Conversation;
  /** The seed of the session's random numbers. */
  readonly seed: number;
  /** The events of the open turn, from its message on. The list grows; a new turn has another one. */
  readonly steps: readonly NumberedEvent[];
  /** A view of all events in force, which is kept between turns under this key. Up to date when it is given. */
  view<V extends View>(key: string, create: () => V): Promise<V>;
  /** Milliseconds that a tool may take that sets no limit of its own. */
  readonly timeout: number;
  /**
   * Commits an event with its change of the state; shared state is committed together with it. The change is asked for
   * when it is its turn, with the state as it is then, and again if others were faster.
   */
  commit(
    event: NewAgentEvent,
    change: (state: AgentState, changedBy: ChangedBy) => StepChange,
  ): Promise<NumberedEvent & AgentEvent>;
  /** The state as it is in the store now. */
  stored(): Promise<AgentState>;
  leave(): void;
}

/** A session as a file. */
export interface SavedSession {
  app: string;
  session: string;
  user: string;
  /** What is shared, as it was when it was saved. */
  shared: AgentState;
  events: Event[];
}

/** The conversations of one app in one store. Any number of processes may have one on the same store. */
export interface AgentSessions {
  readonly app: string;
  open(options?: OpenAgentSession): Promise<AgentSessionInfo>;
  info(session: string): Promise<AgentSessionInfo>;
  /** The state as it is in the store now, or was at a version, with what is shared now. */
  state(session: string, version?: number): Promise<AgentState>;
  events(session: string, options?: { after?: number }): AsyncGenerator<NumberedEvent, void, undefined>;
  enter(session: string, options?: EnterOptions): Promise<Entered>;
  /**
   * Makes the conversation again what it was before an invocation; the log only grows. What is shared stays as it is.
   */
  rewind(session: string, invocation: string): Promise<AgentSessionInfo>;
  save(session: string): Promise<SavedSession>;
  /** A new session with the events of a saved one. What is shared is set where it is not there yet. */
  restore(saved: SavedSession, session?: string): Promise<AgentSessionInfo>;
  /** In the order of opening; `after`: those that come after this one. */
  list(options?: { after?: string | undefined }): AsyncGenerator<AgentSessionInfo, void, undefined>;
  /** Ends a session; true if it was open. */
  close(session: string): Promise<boolean>;
  /** Waits for what is under way. */
  stop(): Promise<void>;
}

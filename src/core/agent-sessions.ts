// Types for a conversation while one run of an agent holds it.
import type { Conversation, View } from "./conversation.ts";
import type { Delta } from "./delta.ts";
import type { AgentEvent, Event, EventOf, Lease, NumberedEvent, AgentOutcome, OpenTurn } from "./event.ts";
import type { AgentState } from "./shared-state.ts";

export interface EnterOptions {
  signal?: AbortSignal | undefined;
  /** The turn's id, and a digest of its message and state. */
  call?: string | undefined;
  digest?: string | undefined;
  /** Continues the open turn. There is no new message. */
  isContinuing?: boolean | undefined;
  /**
   * If a different run holds the session: wait for it (the default), or fail with `session_busy`. A retry of that run's
   * own request always waits. "take" continues a turn of a different process immediately; the caller knows that the
   * process is gone.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
  /** No other process uses the store, so the run does not need a lease. */
  isAlone?: boolean | undefined;
}

/** A finished turn, read from the log. */
export interface RecordedTurn {
  session: string;
  invocation: string;
  events: NumberedEvent[];
  /** "abandoned": a new message arrived before the turn ended. */
  outcome: AgentOutcome | "abandoned";
}

/** An event that is not committed yet. */
type Uncommitted<E> = E extends Event ? Omit<E, "at" | "delta" | "shared"> : never;
export type NewAgentEvent = Uncommitted<AgentEvent | EventOf<"turn.taken" | "turn.renewed" | "turn.released">>;

/** Names the other session that changed a key, if one did. */
export type ChangedBy = (key: string) => string | undefined;

/**
 * The result of a step, computed on the state at the commit: its change, and the event fields that depend on that
 * state.
 */
export interface StepChange {
  delta: Delta;
  fields?: { [field: string]: unknown };
}

/** A session that a run has entered. Until the run leaves, no other run in this process commits to the session. */
export interface Entered {
  readonly session: string;
  /** The open turn that this run continues; undefined if the run starts a new turn. */
  readonly continued: OpenTurn | undefined;
  readonly user: string;
  /** The state after the newest commit, including shared keys. Read-only. */
  readonly state: AgentState;
  /** The speaker and the open turn after the newest commit. */
  readonly conversation: Conversation;
  /** The seed of the session's random numbers. */
  readonly seed: number;
  /** The open turn's events, starting with its message. The list grows; a new turn gets a new list. */
  readonly steps: readonly NumberedEvent[];
  /** Returns an up-to-date view of all events in force. The view is kept between turns under this key. */
  view<V extends View>(key: string, create: () => V): Promise<V>;
  /** Timeout in milliseconds for tools that do not set one. */
  readonly timeout: number;
  /**
   * Commits an event with its change to the state and to shared state. `change` runs on the current state when the
   * event is about to be committed, and runs again if another writer committed first.
   */
  commit(
    event: NewAgentEvent,
    change: (state: AgentState, changedBy: ChangedBy) => StepChange,
  ): Promise<NumberedEvent & AgentEvent>;
  /** Aborts, with a reason, when the session ends or the engine stops. */
  readonly signal: AbortSignal;
  /** Reads the current state from the store. */
  stored(): Promise<AgentState>;
  /** The lease by which the run holds its turn. It is stored in the event that starts the turn or takes it over. */
  readonly lease: Lease | undefined;
  /**
   * Called before a side effect. Returns undefined if the newest commit proves that the run still holds the turn;
   * otherwise commits such a proof. Throws `turn_lost` if a different process took the turn over.
   */
  assertHeld(): Promise<void> | undefined;
  /** Ends the run. An unfinished turn is released, so that other processes can continue it. */
  leave(): Promise<void>;
}

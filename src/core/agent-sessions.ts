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
  /** Ids of the calls whose results the run brings. They must be the calls that the turn waits for. */
  results?: readonly string[] | undefined;
  /**
   * If another run holds the session: wait for it (the default), or fail with `session_busy`. A retry of that run's own
   * request always waits. "take" continues a turn of another process immediately; the caller knows that the process is
   * gone.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
  /** The newest version that the caller has read. If another request began or undid a turn since, the run is refused. */
  seen?: number | undefined;
  /** No other process uses the store, so the run does not need a lease. */
  isAlone?: boolean | undefined;
}

/**
 * A finished turn, read from the log. If the turn waited for the client, this is only the part that one request ran.
 */
export interface RecordedTurn {
  session: string;
  invocation: string;
  events: NumberedEvent[];
  /** "abandoned": a new message arrived before the turn ended. "waiting": the client sends results. */
  outcome: AgentOutcome | "abandoned" | "waiting";
}

/** An event that is not committed yet. */
type Uncommitted<E> = E extends Event ? Omit<E, "at" | "delta" | "shared"> : never;
export type NewAgentEvent = Uncommitted<AgentEvent | EventOf<"turn.taken" | "turn.renewed" | "turn.released">>;

/** The changes of other sessions to the shared state since a step saw it. */
export interface OtherChanges {
  /** Names the other session that changed a key, if one did. */
  writerOf(key: string): string | undefined;
  /** Returns whether another session replaced the value at a JSON Pointer as a whole. */
  hasReplaced(pointer: string): boolean;
}

/** The result of a step on the state at the commit: its change, and the event fields that depend on the state. */
export interface StepChange {
  delta: Delta;
  fields?: { [field: string]: unknown };
}

/** A session that a run has entered. Until the run leaves, no other run in this process commits to the session. */
export interface Entered {
  readonly session: string;
  /** The open turn that this run continues; undefined if the run starts a new turn. */
  readonly continued: OpenTurn | undefined;
  /** The run brings results for the turn that it continues, and must commit them first. */
  readonly isAnswering: boolean;
  readonly user: string;
  /** The state after the newest commit, including shared keys. Read-only. */
  readonly state: AgentState;
  /** The current agent and the open turn after the newest commit. */
  readonly conversation: Conversation;
  /** The seed of the session's random numbers. */
  readonly seed: number;
  /** The open turn's events, starting with its message. The list grows; a new turn gets a new list. */
  readonly steps: readonly NumberedEvent[];
  /** Returns an up-to-date view of all events in force. The view is kept between turns under this key. */
  view<V extends View>(key: string, create: () => V): Promise<V>;
  /** Returns the external calls of a model's answer that started before a rewind undid them. They must not run again. */
  undoneCalls(invocation: string, answer: number): Promise<ReadonlySet<string>>;
  /** Timeout in milliseconds for tools that do not set one. */
  readonly timeout: number;
  /**
   * Commits an event with its change to the state and to shared state. `change` runs on the current state when the
   * event is about to be committed, and runs again if another writer committed first. `since` is the version whose
   * state the step saw (default: the newest).
   */
  commit(
    event: NewAgentEvent,
    change: (state: AgentState, others: OtherChanges) => StepChange,
    since?: number,
  ): Promise<NumberedEvent & AgentEvent>;
  /** Aborts, with a reason, when the session ends or the engine stops. */
  readonly signal: AbortSignal;
  /** Reads the current state from the store. */
  stored(): Promise<AgentState>;
  /** The lease by which the run holds its turn. It is stored in the event that starts the turn or takes it over. */
  readonly lease: Lease | undefined;
  /**
   * Called before a side effect. Makes sure that the run still holds the turn, if necessary with a commit. Throws
   * `turn_lost` if another process took the turn over.
   */
  assertHeld(): Promise<void> | undefined;
  /** Ends the run. An unfinished turn is released, so that other processes can continue it. */
  leave(isWaiting?: boolean): Promise<void>;
}

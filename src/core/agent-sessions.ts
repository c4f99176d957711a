// Types of a conversation that is entered by one run of an agent.
import type { Conversation, View } from "./conversation.ts";
import type { Delta } from "./delta.ts";
import type { AgentEvent, Event, EventOf, Lease, NumberedEvent, AgentOutcome, OpenTurn } from "./event.ts";
import type { AgentState } from "./shared-state.ts";

export interface EnterOptions {
  signal?: AbortSignal | undefined;
  /** The id of the turn, and the digest of its message and state. */
  call?: string | undefined;
  digest?: string | undefined;
  /** Continues the open turn: there is no message. */
  isContinuing?: boolean | undefined;
  /**
   * While another run has the session: wait for it (by default), or be refused as `session_busy`. A repeat of that run always
   * waits. "take" continues a turn of another process at once: the caller knows that the process is gone.
   */
  busy?: "wait" | "refuse" | "take" | undefined;
  /** No other process uses the store, so the run needs no lease. */
  isAlone?: boolean | undefined;
}

/** A finished turn, from the log. */
export interface RecordedTurn {
  session: string;
  invocation: string;
  events: NumberedEvent[];
  /** "abandoned": another message arrived before its end. */
  outcome: AgentOutcome | "abandoned";
}

/** An event before its commit. */
type Uncommitted<E> = E extends Event ? Omit<E, "at" | "delta" | "shared"> : never;
export type NewAgentEvent = Uncommitted<AgentEvent | EventOf<"turn.taken" | "turn.renewed" | "turn.released">>;

/** Names the other session that changed a key, if one did. */
export type ChangedBy = (key: string) => string | undefined;

/** The result of a step on the state at the commit: its change, and the fields of its event that depend on it. */
export interface StepChange {
  delta: Delta;
  fields?: { [field: string]: unknown };
}

/** An entered session: until it is left, only this run of the process commits to it. */
export interface Entered {
  readonly session: string;
  /** The open turn that this run continues; undefined if it begins one. */
  readonly continued: OpenTurn | undefined;
  readonly user: string;
  /** The state after the newest commit, with shared keys. Read-only. */
  readonly state: AgentState;
  /** The speaker and the open turn after the newest commit. */
  readonly conversation: Conversation;
  /** The seed of the session's random numbers. */
  readonly seed: number;
  /** The events of the open turn, starting with its message. The list grows; a new turn gets a new list. */
  readonly steps: readonly NumberedEvent[];
  /** Returns an up-to-date view of all events in force. It is kept between turns under this key. */
  view<V extends View>(key: string, create: () => V): Promise<V>;
  /** Timeout in milliseconds for tools without one. */
  readonly timeout: number;
  /**
   * Commits an event with its change of the state and of shared state. `change` runs on the current state when it is
   * its turn to commit, and again if another writer was faster.
   */
  commit(
    event: NewAgentEvent,
    change: (state: AgentState, changedBy: ChangedBy) => StepChange,
  ): Promise<NumberedEvent & AgentEvent>;
  /** Aborted, with a reason, when the session ends or the engine stops. */
  readonly signal: AbortSignal;
  /** Reads the current state from the store. */
  stored(): Promise<AgentState>;
  /** The lease by which the run holds its turn, for the event that begins or takes it. */
  readonly lease: Lease | undefined;
  /**
   * Asked before an effect. Undefined if the newest commit proves that the run holds the turn; else commits a proof. Throws
   * `turn_lost` if another process took the turn over.
   */
  assertHeld(): Promise<void> | undefined;
  /** Ends the run. A turn that is not over is released, so that others can continue it. */
  leave(): Promise<void>;
}

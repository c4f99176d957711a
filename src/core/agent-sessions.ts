// A conversation in the hands of one run.
import type { Conversation } from "./conversation.ts";
import type { Delta } from "./delta.ts";
import type { AgentEvent, NumberedEvent, AgentOutcome, OpenTurn } from "./event.ts";
import type { AgentState } from "./shared-state.ts";
import type { View } from "./turn.ts";

export interface EnterOptions {
  signal?: AbortSignal | undefined;
  /** The id of the turn, and the digest of its message and state. */
  call?: string | undefined;
  digest?: string | undefined;
  /** Continues the open turn: there is no message. */
  isContinuing?: boolean | undefined;
  /** While another run has the session: wait for it (by default), or be refused as `session_busy`. */
  busy?: "wait" | "refuse" | undefined;
}

/** A turn that is over, as the log has it. */
export interface RecordedTurn {
  session: string;
  invocation: string;
  events: NumberedEvent[];
  /** "abandoned": another message came before it was over. */
  outcome: AgentOutcome | "abandoned";
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
  /** The open turn that this run continues; undefined if it begins one. */
  readonly continued: OpenTurn | undefined;
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
  /** Aborted when the session ends, or the engine stops: the reason says why. */
  readonly signal: AbortSignal;
  /** The state as it is in the store now. */
  stored(): Promise<AgentState>;
  leave(): void;
}

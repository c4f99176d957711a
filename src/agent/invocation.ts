// An invocation: one user turn, run to its end. Gives steps their state, commits what they come to, and finds again what
// was committed before the run was cut short.
import type { AgentContext, ReadonlyAgentContext } from "../core/agent.ts";
import type { AgentState, Entered, NewAgentEvent, StepChange } from "../core/agent-sessions.ts";
import { changed, type Delta } from "../core/delta.ts";
import { readOnly } from "../core/draft.ts";
import { HoldfastError, isHoldfastError, messageOf } from "../core/errors.ts";
import type { AgentEvent, EventOf, NumberedEvent } from "../core/event.ts";
import { unescapeKey, type Json } from "../core/json.ts";
import type { Item, ModelResponse, Piece } from "../core/model.ts";
import { splitDelta } from "../core/shared-state.ts";
import { createWorkingState, type Placed, type StepDraft, type WorkingState } from "../session/working-state.ts";
import { cancelledRun } from "./callbacks.ts";
import type { Family } from "./family.ts";

/** Where in an invocation an agent runs. */
export interface Place {
  agent: string;
  /** Tells every run of an agent apart. */
  path: string;
  branch: string | undefined;
  /** The path of the agent around it that is another one's tool, and what that was asked. */
  alone: { path: string; request: Item[] } | undefined;
  /** Whether the invocation is over when it has ended. */
  isOutermost: boolean;
}

/** A part of an answer that is still being written. Never committed. */
export interface PartialEvent {
  type: "partial";
  invocation: string;
  agent: string;
  path: string;
  piece: Piece;
}

export type RunEvent = (AgentEvent & { version: number }) | PartialEvent;

/** What a replay takes from a log, where a run would do it. */
export interface StandIn {
  /** That of the recorded session's random numbers. */
  seed: number;
  /** When the event of that version was committed. */
  at(version: number): number;
  /** The model's answer. Throws its failure. */
  answer(place: Place): ModelResponse;
  /** What came of a call that is not made again; undefined if it is. */
  result(place: Place, call: string, isExternal: boolean): { output: Json; error?: HoldfastError } | undefined;
  /** What came of all calls of an answer, of which some were not made again. */
  results(place: Place): { delta: Delta; transfer?: string; escalate?: true };
  /** Whether the agent was out of time here. */
  isLate(place: Place): boolean;
}

export interface InvocationOptions {
  id: string;
  /** Whether an earlier run has begun it. */
  isContinued: boolean;
  entered: Entered;
  family: Family;
  signal: AbortSignal;
  isStreaming: boolean;
  standIn?: StandIn | undefined;
  /** Hands a committed event to whoever reads. */
  put(event: RunEvent): Promise<void>;
  drop(event: RunEvent): void;
  /** Resolves when whoever reads has taken it all. */
  taken(): Promise<void>;
}

export type Invocation = ReturnType<typeof createInvocation>;

/** The types of event that stand for a step, and are not made again. */
type Recorded = Exclude<AgentEvent["type"], "invocation.began" | "agent.failed">;

export function createInvocation(options: InvocationOptions) {
  const { id, entered, family, signal, isStreaming, standIn, put, drop, taken } = options;
  let temporary: AgentState = {};
  let commits = 0;
  let merged: { of: AgentState; with: AgentState; state: AgentState } | undefined;
  const recorded = options.isContinued ? recordedSteps(entered.steps) : new Map<string, NumberedEvent[]>();

  /** The state as it is now, with what is temporary. The same object until it changes. */
  function state(): AgentState {
    if (merged?.of !== entered.state || merged.with !== temporary) {
      merged = { of: entered.state, with: temporary, state: { ...entered.state, ...temporary } };
    }
    return merged.state;
  }

  /**
   * Commits an event with the writes of its step, placed on the state as it is then. `fieldsOf` gives the fields that
   * depend on how they were placed; without it a step whose writes are refused fails.
   */
  async function commit<E extends NewAgentEvent>(
    event: E,
    working?: WorkingState,
    fieldsOf?: (placed: Placed) => StepChange["fields"] & { delta?: Delta },
  ): Promise<EventOf<E["type"]> & { version: number }> {
    const committed = await committing(entered, event, () => {
      const placed = working?.placeOn(state()) ?? nothingPlaced;
      // It may have waited for its turn, and a run that was cancelled commits nothing any more.
      if (signal.aborted) throw cancelledRun(signal);
      const [refused] = placed.refused;
      if (refused && !fieldsOf) throw conflictAt(refused.path, placeName(event));
      const { delta = placed.delta, ...fields } = fieldsOf?.(placed) ?? {};
      if (placed.overwrote.length > 0) fields["overwrote"] = placed.overwrote;
      const { temp } = splitDelta(delta);
      if (temp.length === 0) return { delta, fields };
      temporary = changed(temporary as Json, temp) as AgentState;
      const passing = new Set(temp);
      return { delta: delta.filter((operation) => !passing.has(operation)), fields };
    });
    // With a store and a model that answer at once, nothing else in the process would get its turn.
    if (++commits % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
    await put(committed);
    return committed as unknown as EventOf<E["type"]> & { version: number };
  }

  function about({ agent }: Place) {
    const { session, user } = entered;
    return { agent, session, user, invocation: id, signal, stored: () => entered.stored() };
  }

  return {
    id,
    entered,
    family,
    signal,
    isStreaming,
    standIn,
    taken,
    state,
    /** What a step writes to. */
    working: (): WorkingState => createWorkingState(state()),
    commit,
    /** What a callback is given. */
    context(place: Place, { state, update }: StepDraft): AgentContext {
      return Object.freeze({ ...about(place), state, update });
    },
    readonlyContext(place: Place): ReadonlyAgentContext {
      return Object.freeze({ ...about(place), state: readOnly<AgentState>(state() as Json) });
    },
    /** The next step of a run, if it was committed before the run was cut short. */
    next<Type extends Recorded>({ path }: Place, ...types: Type[]): (EventOf<Type> & { version: number }) | undefined {
      const steps = recorded.get(path);
      const event = steps?.[0];
      if (!event || !(types as string[]).includes(event.type)) return undefined;
      steps?.shift();
      return event as EventOf<Type> & { version: number };
    },
    piece(place: Place, piece: Piece): void {
      drop({ type: "partial", invocation: id, agent: place.agent, path: place.path, piece });
    },
    /** Commits that a step failed. Throws what ends the run. */
    async fail(place: Place, step: EventOf<"agent.failed">["step"], thrown: unknown): Promise<never> {
      if (signal.aborted) throw cancelledRun(signal);
      // Nothing can be committed any more, or all that could be was.
      if (thrown instanceof Failed || isOfCommit(thrown)) throw thrown;
      const { code, message } = errorOf(thrown, step);
      const event = await commit({
        type: "agent.failed" as const,
        ...placed(place, id),
        step,
        error: { code, message },
      });
      throw new Failed(event);
    },
  };
}

const nothingPlaced: Placed = { delta: [], overwrote: [], refused: [], failed: new Map() };

const placeName = (event: NewAgentEvent): string => ("path" in event ? `agent ${event.agent}` : "the message");

/** Two writers changed a value in ways that do not combine. */
export function conflictAt(path: string, writer: string): HoldfastError {
  const [, key = ""] = path.split("/").map(unescapeKey);
  const message = `${writer} and others changed ${path || "the state"} at the same time; use update("${key}", …)`;
  return new HoldfastError("state_conflict", message, { detail: { path } });
}

/** A run that ended with a failure, which is in the log. */
export class Failed {
  readonly event: EventOf<"agent.failed"> & { version: number };
  constructor(event: EventOf<"agent.failed"> & { version: number }) {
    this.event = event;
  }
}

/** What every event of an agent has. */
export function placed({ agent, path, branch }: Place, invocation: string) {
  return { invocation, agent, path, ...(branch !== undefined && { branch }) };
}

// Not told by their codes: tools and callbacks work with sessions and stores of their own, and what those refuse is theirs.
const ofCommit = new WeakSet<object>();

/** Whether a step has failed because the conversation cannot be written to. */
export function isOfCommit(thrown: unknown): boolean {
  return typeof thrown === "object" && thrown !== null && ofCommit.has(thrown);
}

/** Commits, and remembers a failure as one of the commit, unless the change itself could not be made. */
async function committing(entered: Entered, event: NewAgentEvent, change: () => StepChange) {
  let ofChange: unknown;
  try {
    return await entered.commit(event, () => {
      try {
        return change();
      } catch (thrown) {
        ofChange = thrown;
        throw thrown;
      }
    });
  } catch (thrown) {
    if (thrown !== ofChange && typeof thrown === "object" && thrown !== null) ofCommit.add(thrown);
    throw thrown;
  }
}

/** What is not ours was thrown by a callback. */
function errorOf(thrown: unknown, step: string): HoldfastError {
  if (isHoldfastError(thrown)) return thrown;
  return new HoldfastError("callback_failed", `a callback failed (${step}): ${messageOf(thrown)}`, { cause: thrown });
}

/** The steps of an invocation by path, in order. */
function recordedSteps(events: readonly NumberedEvent[]): Map<string, NumberedEvent[]> {
  const steps = new Map<string, NumberedEvent[]>();
  for (const event of events) {
    if (!("path" in event) || event.type === "agent.failed") continue;
    const known = steps.get(event.path);
    if (known) known.push(event);
    else steps.set(event.path, [event]);
  }
  return steps;
}

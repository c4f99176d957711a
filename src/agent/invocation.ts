// createInvocation(): one user turn. It provides the state for each step, commits the results, and finds the steps that
// an interrupted run has already committed.
import type { AgentContext, ReadonlyAgentContext } from "../core/agent.ts";
import type { Entered, NewAgentEvent, OtherChanges, StepChange } from "../core/agent-sessions.ts";
import { splitDelta, type AgentState } from "../core/shared-state.ts";
import { changed, topKey, type Delta } from "../core/delta.ts";
import { readOnly } from "../core/draft.ts";
import { HoldfastError, isHoldfastError, isRefusal, messageOf } from "../core/errors.ts";
import type { AgentEvent, EventOf, NumberedEvent } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { isFunctionCall, type Piece } from "../core/model.ts";
import { WorkingState, type Placed, type StepDraft } from "../session/working-state.ts";
import { thrownIn } from "../session/thrown.ts";
import { cancelledRun, sourceOf, sourceThrown } from "./callbacks.ts";
import type { Family } from "./transfer.ts";
import type { Place, World } from "./world.ts";

/** A piece of an answer in progress. Never committed. */
export interface PartialEvent {
  type: "partial";
  invocation: string;
  agent: string;
  path: string;
  piece: Piece;
}

export type RunEvent = (AgentEvent & { version: number }) | PartialEvent;

export interface InvocationOptions {
  id: string;
  /** Whether an earlier run started the invocation. */
  isContinued: boolean;
  entered: Entered;
  family: Family;
  signal: AbortSignal;
  isStreaming: boolean;
  world: World;
  /** Passes a committed event to the reader. */
  put(event: RunEvent): Promise<void>;
  drop(event: RunEvent): void;
  /** Resolves when the reader has taken all events. */
  taken(): Promise<void>;
}

export type Invocation = ReturnType<typeof createInvocation>;

/** The types of events that record finished steps. A resumed run does not repeat these steps. */
type Recorded = Exclude<AgentEvent["type"], "invocation.began" | "client.answered" | "agent.failed">;

export function createInvocation(options: InvocationOptions) {
  const { id, entered, family, signal, isStreaming, world, put, drop, taken } = options;
  let temporary: AgentState = {};
  let commits = 0;
  let merged: { of: AgentState; with: AgentState; state: AgentState } | undefined;
  const callIds = new Set(options.isContinued ? entered.steps.flatMap(callIdsIn) : []);
  const recorded = options.isContinued ? recordedSteps(entered.steps) : new Map<string, NumberedEvent[]>();

  /** Returns a stored state with the `temp:` keys added. The result is the same object until one of the two changes. */
  function withTemporary(stored: AgentState): AgentState {
    if (Object.keys(temporary).length === 0) return stored;
    if (merged?.of !== stored || merged.with !== temporary) {
      merged = { of: stored, with: temporary, state: { ...stored, ...temporary } };
    }
    return merged.state;
  }

  const state = (): AgentState => withTemporary(entered.state);

  /**
   * Commits an event with its step's writes, merged into the current state. `fieldsOf` returns the event's fields that
   * depend on the merge. Without `fieldsOf`, the step fails if a write is refused.
   */
  async function commit<E extends NewAgentEvent>(
    event: E,
    working?: WorkingState,
    fieldsOf?: (placed: Placed, conflict: Conflict) => StepChange["fields"] & { delta?: Delta },
  ): Promise<EventOf<E["type"]> & { version: number }> {
    let before: AgentState | undefined;
    const change: Parameters<Entered["commit"]>[1] = (stored, others) => {
      // This runs again if another writer committed first, so restore the temporary keys.
      before ??= temporary;
      temporary = before;
      const isReplaced = (pointer: string): boolean =>
        isAssigned(pointer, working?.since ?? 0) || others.hasReplaced(pointer);
      const placed = working?.placeOn(withTemporary(stored), isReplaced) ?? nothingPlaced;
      // The run may have been cancelled while the commit waited. A cancelled run commits nothing.
      if (signal.aborted) throw cancelledRun(signal);
      const conflict: Conflict = (path) => conflictAt(path, event, others, entered.steps);
      const [refused] = placed.refused;
      if (refused && !fieldsOf) throw conflict(refused.path);
      const { delta = placed.delta, ...fields } = fieldsOf?.(placed, conflict) ?? {};
      if (placed.overwrote.length > 0) fields["overwrote"] = placed.overwrote;
      const { temp } = splitDelta(delta);
      if (temp.length === 0) return { delta, fields };
      temporary = changed(temporary as Json, temp) as AgentState;
      const passing = new Set(temp);
      return { delta: delta.filter((operation) => !passing.has(operation)), fields };
    };
    const committed = await commitTo(entered, event, change, working?.since).catch((thrown: unknown) => {
      temporary = before ?? temporary;
      throw thrown;
    });
    // With a synchronous store and model, nothing else in the process could run without this pause.
    if (++commits % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
    await put(committed);
    return committed as unknown as EventOf<E["type"]> & { version: number };
  }

  const stored = (): Promise<AgentState> => entered.stored();

  /**
   * Returns whether another step of this turn has added, replaced or removed the value at a JSON Pointer since a
   * version.
   */
  const isAssigned = (pointer: string, since: number): boolean =>
    entered.steps.some((step) => step.version > since && changesIn(step).some(({ path }) => path === pointer));

  return {
    id,
    entered,
    family,
    signal,
    isStreaming,
    world,
    taken,
    state,
    /** The ids of all calls in the turn. Agents that run in parallel share them, so that no id is used twice. */
    callIds,
    /** Returns the state that collects a step's writes. */
    working: (): WorkingState => new WorkingState(state(), entered.steps.at(-1)?.version ?? 0),
    commit,
    /** Throws if another process has taken over the turn. Called before an external effect. */
    assertHeld: (): Promise<void> | undefined => entered.assertHeld()?.catch(failCommit),
    /** Returns the external calls of an answer that a rewind undid after their start. */
    undoneCalls: (answer: number): Promise<ReadonlySet<string>> => entered.undoneCalls(id, answer).catch(failCommit),
    /** Returns the context for a callback. */
    context({ agent }: Place, draft: StepDraft): AgentContext {
      const { session, user } = entered;
      return Object.freeze({
        agent,
        session,
        user,
        invocation: id,
        signal,
        stored,
        get state() {
          return draft.state;
        },
        update: (key: string, change: (value: unknown) => unknown) => draft.update(key, change),
      }) as AgentContext;
    },
    readonlyContext({ agent }: Place): ReadonlyAgentContext {
      const { session, user } = entered;
      const shown = readOnly<AgentState>(state() as Json);
      return Object.freeze({ agent, session, user, invocation: id, signal, stored, state: shown });
    },
    /** Returns a run's next step, if it was committed before the run was interrupted. */
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
    /** Commits a step's failure. Throws the error that ends the run. */
    async fail(place: Place, step: EventOf<"agent.failed">["step"], thrown: unknown): Promise<never> {
      if (signal.aborted) throw cancelledRun(signal);
      // `Failed` means that the failure is already committed. After a commit error, nothing more can be committed.
      if (thrown instanceof Failed || isOfCommit(thrown)) throw thrown;
      const error = toError(thrown, step);
      const { code, message } = error;
      const described = sourceThrown(thrown) ?? thrownIn(error);
      const event = await commit({
        type: "agent.failed" as const,
        ...placed(place, id),
        step,
        error: { code, message },
        ...(described && { thrown: described }),
      });
      throw new Failed(event, error);
    },
  };
}

const nothingPlaced: Placed = { delta: [], overwrote: [], refused: [], failed: new Map() };

/** Creates the error for a write to a value that another writer also changed. */
export type Conflict = (path: string) => HoldfastError;

function conflictAt(
  path: string,
  event: NewAgentEvent,
  others: OtherChanges,
  steps: readonly NumberedEvent[],
): HoldfastError {
  const key = topKey(path);
  const touches = (one: NumberedEvent): boolean => changesIn(one).some(({ path }) => topKey(path) === key);
  const beside = steps.findLast(
    (one) => "path" in one && !("path" in event && one.path === event.path) && touches(one),
  );
  const writer = "agent" in event ? `agent ${event.agent}` : "this session";
  const other =
    others.writerOf(key) ?? (beside && "agent" in beside ? `agent ${beside.agent}` : "another call of the answer");
  const message = `${writer} and ${other} changed ${path || "the state"} at the same time; use update("${key}", …)`;
  return new HoldfastError("state_conflict", message, { detail: { path, writers: [writer, other] } });
}

/** Returns an event's changes to the session's own state and to shared state. */
const changesIn = (event: NumberedEvent): Delta => [
  ...(event.delta ?? []),
  ...(("shared" in event && event.shared) || []),
];

/** Thrown to end a run whose failure is in the log. */
export class Failed {
  readonly event: EventOf<"agent.failed"> & { version: number };
  readonly error: HoldfastError;
  constructor(event: EventOf<"agent.failed"> & { version: number }, error: HoldfastError) {
    this.event = event;
    this.error = error;
  }
}

/** Returns the fields that all of an agent's events have. */
export function placed({ agent, path, branch }: Place, invocation: string) {
  return { invocation, agent, path, ...(branch !== undefined && { branch }) };
}

// Commit errors are marked, because tools and callbacks that use other sessions and stores can throw the same codes.
const ofCommit = new WeakSet<object>();

/** Returns whether a step failed because the conversation could not be written. */
export function isOfCommit(thrown: unknown): boolean {
  return typeof thrown === "object" && thrown !== null && ofCommit.has(thrown);
}

/** Commits. Marks an error as a commit error, unless `change` threw it. */
async function commitTo(
  entered: Entered,
  event: NewAgentEvent,
  change: Parameters<Entered["commit"]>[1],
  since: number | undefined,
) {
  let ofChange: unknown;
  const watched: typeof change = (...given) => {
    try {
      return change(...given);
    } catch (thrown) {
      ofChange = thrown;
      throw thrown;
    }
  };
  try {
    return await entered.commit(event, watched, since);
  } catch (thrown) {
    if (thrown === ofChange) throw thrown;
    return failCommit(thrown);
  }
}

function failCommit(thrown: unknown): never {
  if (typeof thrown === "object" && thrown !== null) ofCommit.add(thrown);
  throw thrown;
}

/** Returns an error with a code. Refusals and errors without a code become `callback_failed`, because only tools can refuse. */
function toError(thrown: unknown, step: string): HoldfastError {
  if (isHoldfastError(thrown) && !isRefusal(thrown)) return thrown;
  const callback = sourceOf(thrown) ?? `the step ${step}`;
  const message = `${callback} failed: ${messageOf(thrown)}`;
  return new HoldfastError("callback_failed", message, { cause: thrown, detail: { callback } });
}

function callIdsIn(event: NumberedEvent): string[] {
  return event.type === "model.answered" ? event.items.filter(isFunctionCall).map(({ call_id }) => call_id) : [];
}

/** Groups the steps of an invocation by path, in order. */
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

// Replays conversations: runs a saved conversation again with its recorded model answers, and reports the first event
// that differs.
import type { Agent } from "../core/agent.ts";
import type { Entered } from "../core/agent-sessions.ts";
import type { Conversations, Replayed, SavedConversation } from "../core/sessions.ts";
import type { AgentState } from "../core/shared-state.ts";
import { applyDelta, changed, type Delta } from "../core/delta.ts";
import { invalidOption, isHoldfastError, messageOf } from "../core/errors.ts";
import type { Event, EventOf, NumberedEvent } from "../core/event.ts";
import { copyJson, firstDifference, unescapeKey, type Json } from "../core/json.ts";
import type { FunctionCallOutput } from "../core/model.ts";
import { differentChange, inWords, named, type Difference } from "./difference.ts";
import { createRecording, type RecordedEvent, type Recording } from "./recording.ts";
import { runWith, type RunOptions } from "./run.ts";

/** Replays a saved conversation with its agent. The engine's `replay` calls it. */
export async function replayConversation(
  agent: Agent,
  saved: SavedConversation,
  scratch: Conversations,
): Promise<Replayed> {
  const replayed = await replaySession(agent, saved, scratch);
  if (replayed.same) return replayed;
  const { same, version, expected, actual, message } = replayed;
  return { same, version, what: "event", recorded: toJson(expected), replayed: toJson(actual), message };
}

const toJson = (value: unknown): Json => (value === undefined ? null : copyJson(value, "the event", "drop"));

/**
 * Runs a saved session again with its agent in `sessions`, a new engine on a new in-memory store. Messages, models'
 * answers and their failures come from the recording. Rewinds are repeated, and callbacks and tools run. Every event
 * must equal the recorded one, except for times, ids of sessions and invocations, and names and usage of models.
 *
 * Results and changes of tools with `effects: "external"` also come from the recording, and neither the tools nor their
 * callbacks run. Decisions that depend on a clock also come from the recording: timeouts, time limits, unknown
 * outcomes. Logs from older versions have only the answer after `afterModel`, so the value that `afterModel` returns is
 * ignored. Events of parallel agents come in the recorded order. If an invocation failed and was continued, it fails
 * and is continued again. An interrupted invocation ends at the same event.
 *
 * Some inputs are not in the log, so code that reads them may behave differently. These are `temp:` state that came
 * with a message or was lost in a crash, and changes of shared state by other sessions. The order in which parallel
 * agents read and write is unknown too. Shared state starts as saved, without the session's own additions.
 */
export async function replaySession(
  agent: Agent,
  saved: SavedConversation,
  sessions: Conversations,
): Promise<{ same: true; events: number } | Difference> {
  const events = saved.events.map((event, index) => ({ ...event, version: index + 1 }) as NumberedEvent);
  const [opened] = events;
  if (opened?.type !== "session.opened") {
    throw invalidOption("this is not a saved session: its first event is not session.opened");
  }
  const state = { ...(opened.delta ? (applyDelta(null, opened.delta) as AgentState) : {}), ...sharedBefore(saved) };
  const { session } = await sessions.open({ user: saved.user, state, isolated: opened.isolated });
  const ids = new Map([[session, saved.session]]);
  const withRecordedIds = (text: string): string => {
    let result = text;
    for (const [now, then] of ids) if (result.includes(now)) result = result.replaceAll(now, then);
    return result;
  };

  for (let index = 1; index < events.length;) {
    const event = events[index] as NumberedEvent;
    let difference: Difference | undefined;
    if ("invocation" in event) {
      const part = invocationAt(events, index);
      const recording = createRecording({
        events: part,
        agent,
        withRecordedIds,
        seed: opened.randomness.seed,
        at: (version) => events[version - 1]?.at ?? 0,
      });
      const began = (id: string): void => void ids.set(id, event.invocation);
      difference = await replayInvocation(agent, event as RecordedEvent, recording, { sessions, session, began });
      index += part.length;
    } else {
      difference = await repeat(event, sessions, session);
      index++;
    }
    if (difference) return difference;
  }
  return { same: true, events: events.length };
}

/**
 * Returns the events of the invocation that starts at `index`. Until the invocation ends, the session has no other
 * commits.
 */
function invocationAt(events: NumberedEvent[], index: number): RecordedEvent[] {
  const end = events.findIndex(
    ({ type }, at) => at > index && (type === "invocation.began" || type.startsWith("session.")),
  );
  return events.slice(index, end < 0 ? undefined : end) as RecordedEvent[];
}

interface Where {
  sessions: Conversations;
  session: string;
  began(id: string): void;
}

async function replayInvocation(
  agent: Agent,
  recorded: RecordedEvent,
  recording: Recording,
  { sessions, session, began }: Where,
): Promise<Difference | undefined> {
  const guarded: Conversations = {
    ...sessions,
    enter: async (id, options) => recording.guard((await sessions.enter(id, { ...options, isAlone: true })) as Entered),
  };
  for (let request = requestIn(recorded); ; request = requestIn(recording.head)) {
    const { position } = recording;
    recording.begin();
    let why = "the run ended earlier";
    let isFailed = false;
    try {
      const running = runWith(agent, { sessions: guarded, session, ...request }, recording.world);
      for (let next = await running.next(); ; next = await running.next()) {
        if (next.done) {
          isFailed = next.value.outcome === "failed";
          break;
        }
        if (next.value.type === "invocation.began") began(next.value.invocation);
      }
    } catch (thrown) {
      if (!isHoldfastError(thrown) || thrown.code !== "turn_lost") why = messageOf(thrown);
    }
    if (recording.difference) return recording.difference;
    if (recording.isDone) return undefined;
    // At the next event, a later run continued a failed run, or the client sent its results.
    const isContinued = isFailed || recording.isStopped || recording.head?.type === "client.answered";
    if (!isContinued || recording.position === position) return recording.ended(why);
  }
}

/** Returns the options of the run that a recorded event began: with a message, with results, or with neither. */
function requestIn(event: RecordedEvent | undefined): Omit<RunOptions, "sessions"> {
  if (event?.type !== "invocation.began" && event?.type !== "client.answered") return {};
  const { items, tools: clientTools } = structuredClone(event);
  const stateDelta = readStateDelta(event);
  if (event.type === "invocation.began") return { message: items, clientTools, stateDelta };
  const results = items.filter(({ type }) => type === "function_call_output") as FunctionCallOutput[];
  const message = items.slice(results.length);
  return { results, message: message.length > 0 ? message : undefined, clientTools, stateDelta };
}

/** Returns the state that was set with a message or with results. */
function readStateDelta({ delta = [], shared = [] }: EventOf<"invocation.began" | "client.answered">): AgentState {
  const set = [...delta, ...shared].flatMap((operation) =>
    operation.op === "remove" ? [] : [[unescapeKey(operation.path.slice(1)), operation.value]],
  );
  return Object.fromEntries(set) as AgentState;
}

/** Repeats a change of the session between invocations. */
async function repeat(event: NumberedEvent, sessions: Conversations, session: string): Promise<Difference | undefined> {
  const { version } = event;
  const before = (await sessions.state(session)) as Json;
  if (event.type === "session.rewound") await sessions.rewind(session, event.to);
  else if (event.type === "session.updated") await updateAgain(event, sessions, session);
  else if (event.type === "session.closed") {
    await sessions.close(session);
    return undefined;
  } else {
    const message = `event ${version}: ${named(event)} cannot occur in an agent's session`;
    return { same: false, version, expected: event, actual: undefined, message };
  }
  const compared = ({ type, ...rest }: Event): Json => ({ type, to: (rest as { to?: number }).to ?? null });
  for await (const now of sessions.events(session, { after: version - 1 })) {
    const found =
      firstDifference(compared(event), compared(now)) ?? differentChange(before, event.delta ?? [], now.delta ?? []);
    if (!found) return undefined;
    const [expected, actual] = found.values;
    const message = `event ${version} (${event.type}): ${inWords(found)}`;
    return { same: false, version, expected, actual, message };
  }
  const message = `event ${version}: the recording has ${event.type}, but the replay does not produce it`;
  return { same: false, version, expected: event, actual: undefined, message };
}

/** Repeats a recorded change of the state. */
async function updateAgain(event: EventOf<"session.updated">, sessions: Conversations, session: string): Promise<void> {
  const change = [...(event.delta ?? []), ...(event.shared ?? [])];
  await sessions.update(session, (state) => {
    const next = changed(JSON.parse(JSON.stringify(state)) as Json, change) as AgentState;
    for (const key of Object.keys(state)) if (!Object.hasOwn(next, key)) delete state[key];
    Object.assign(state, next);
  });
}

/**
 * Returns the shared state at the start of the session as far as it is known: the saved state without the session's
 * additions. Replaced values are left as saved, because the earlier ones were not recorded.
 */
function sharedBefore({ events, shared }: SavedConversation): AgentState {
  let state = copyJson(shared, "shared") as Json;
  const changes: Delta = events.flatMap((event) => ("shared" in event && event.shared) || []);
  for (const { op, path } of changes.toReversed()) {
    if (op === "replace") continue;
    try {
      const undo: Delta = [op === "add" ? { op: "remove", path } : { op: "add", path, value: null }];
      state = applyDelta(state, undo, new Set());
    } catch {
      // Another session has changed this value since, so it is left as saved.
    }
  }
  return state as AgentState;
}

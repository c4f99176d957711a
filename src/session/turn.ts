// createTurns(): decides whether a run starts a new turn, continues an interrupted turn, or gets a recorded turn.
import type { RecordedTurn } from "../core/agent-sessions.ts";
import { isWaiting } from "../core/conversation.ts";
import { HoldfastError } from "../core/errors.ts";
import type { EventOf, NumberedEvent, OpenTurn } from "../core/event.ts";
import { turnKey } from "../core/event-key.ts";
import { isInForce } from "../core/session.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import type { Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

export interface TurnRequest {
  /** The turn's id, and a digest of its message and state. A run without a message has neither. */
  call?: string | undefined;
  digest?: string | undefined;
  /** Whether the run continues the open turn without a new message. */
  isContinuing?: boolean | undefined;
  /** Ids of the calls whose results the run brings. */
  results?: readonly string[] | undefined;
  /** The newest version that the caller has read. */
  seen?: number | undefined;
}

/** An event that starts a part of a turn: the message, or the client's results. */
type Began = EventOf<"invocation.began" | "client.answered"> & { version: number };

/** The turn to continue, the recorded turn, or undefined for a new turn. `isRepeat`: the log has the request. */
type Decision = { open: OpenTurn; isRepeat: boolean } | { recorded: RecordedTurn } | undefined;

export function createTurns(logs: Logs) {
  async function findBegan(log: OpenLog, { call, digest }: TurnRequest): Promise<Began | undefined> {
    assertCallId(call);
    if (call === undefined) return undefined;
    const event = await logs.find(log.id, turnKey(call));
    if (event?.type !== "invocation.began" && event?.type !== "client.answered") return undefined;
    if (event.digest !== digest) {
      const message = `the call id ${call} was already used for a turn with a different message`;
      throw new HoldfastError("call_conflict", message, { detail: { call } });
    }
    if (!isInForce(log.session, event.version)) throw undone(call);
    return event;
  }

  /** Reads the part of a turn that starts at `version`, up to the turn's end or to the client's next results. */
  async function readRecorded(log: OpenLog, invocation: string, version: number): Promise<RecordedTurn> {
    const events: NumberedEvent[] = [];
    const recorded = (outcome: RecordedTurn["outcome"]): RecordedTurn => ({
      session: log.id,
      invocation,
      events,
      outcome,
    });
    for await (const event of logs.events(log.id, version - 1)) {
      if (!("invocation" in event) || event.invocation !== invocation || event.type.startsWith("turn.")) continue;
      if (event.type === "client.answered" && event.version > version) return recorded("waiting");
      events.push(event);
      if (event.type === "agent.ended" && event.last) return recorded(event.outcome);
    }
    const { turn } = log.session.conversation ?? {};
    return recorded(turn?.invocation === invocation && isWaiting(turn) ? "waiting" : "abandoned");
  }

  /** Refuses a run if its conversation has continued since the caller read it. State and label changes do not count. */
  async function assertSeen({ id, session }: OpenLog, seen: number | undefined): Promise<void> {
    if (seen === undefined || session.version <= seen) return;
    for await (const { type } of logs.events(id, seen)) {
      if (type === "invocation.began" || type === "client.answered" || type === "session.rewound") {
        throw overtaken(id, seen);
      }
    }
  }

  return {
    /**
     * Decides how a run begins. The log must have been refreshed. Returns the turn to continue, the recorded turn for a
     * retry, or undefined to start a new turn. Commits nothing.
     */
    async decide(log: OpenLog, request: TurnRequest): Promise<Decision> {
      const { turn } = log.session.conversation ?? {};
      const began = await findBegan(log, request);
      if (!began) await assertSeen(log, request.seen);
      const newest = turn?.answered ?? turn?.began;
      if (began && (turn?.invocation !== began.invocation || newest !== began.version)) {
        return { recorded: await readRecorded(log, began.invocation, began.version) };
      }
      if (turn && (began || request.isContinuing)) {
        // A turn that waits for the client's results cannot continue without them.
        const isPaused = isWaiting(turn) && turn.lease === undefined;
        if (!isPaused) return { open: turn, isRepeat: began !== undefined };
        return { recorded: await readRecorded(log, turn.invocation, newest as number) };
      }
      // A cancelled turn accepts no results, although its calls are still known.
      assertResults(log.id, isWaiting(turn) ? turn.waiting : [], request.results);
      // Without results, the message starts a new turn and abandons the open turn.
      return request.results ? { open: turn as OpenTurn, isRepeat: false } : undefined;
    },
  };
}

/** Creates the error for a run whose conversation has continued since the caller read it. */
export function overtaken(session: string, seen: number): HoldfastError {
  const message = `another request continued session ${session} after version ${seen}; nothing was started; fork the session at that version, or read it again`;
  return new HoldfastError("version_conflict", message, { detail: { seen } });
}

/** Refuses results for calls that are not open. Also refuses if the result of an open call is missing. */
export function assertResults(session: string, waiting: readonly string[], results: readonly string[] = []): void {
  const wrong = results.find((call, at) => !waiting.includes(call) || results.indexOf(call) !== at);
  if (wrong !== undefined) {
    const open = waiting.length === 0 ? "the session does not wait for any call" : `it waits for ${waiting.join(", ")}`;
    const message = `session ${session} does not wait for a result of the call ${wrong}; ${open}`;
    throw new HoldfastError("call_not_open", message, { detail: { call: wrong, waiting } });
  }
  const missing = waiting.filter((call) => !results.includes(call));
  if (missing.length === 0) return;
  const message = `No tool output found for function call ${missing.join(", ")}; send the results of all open calls, or cancel the turn`;
  throw new HoldfastError("results_missing", message, { detail: { calls: missing } });
}

// createTurns(): decides whether a run starts a turn, continues an interrupted one, or gets a recorded one.
import type { RecordedTurn } from "../core/agent-sessions.ts";
import { HoldfastError } from "../core/errors.ts";
import { turnKey, type EventOf, type NumberedEvent, type OpenTurn } from "../core/event.ts";
import { isInForce } from "../core/session.ts";
import { assertCallId, undone } from "./find-repeat.ts";
import type { Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

/** What a run requests. */
export interface TurnRequest {
  /** The turn's id, and a digest of its message and state. A run without a message has neither. */
  call?: string | undefined;
  digest?: string | undefined;
  /** Continues the open turn. There is no new message. */
  isContinuing?: boolean | undefined;
}

type Began = EventOf<"invocation.began"> & { version: number };

type Decision = { open: OpenTurn } | { recorded: RecordedTurn } | undefined;

export function createTurns(logs: Logs) {
  async function findBegan(log: OpenLog, { call, digest }: TurnRequest): Promise<Began | undefined> {
    assertCallId(call);
    if (call === undefined) return undefined;
    const event = await logs.find(log.id, turnKey(call));
    if (event?.type !== "invocation.began") return undefined;
    if (event.digest !== digest) {
      const message = `the call id ${call} was used before, for a turn with another message`;
      throw new HoldfastError("call_conflict", message, { detail: { call } });
    }
    if (!isInForce(log.session, event.version)) throw undone(call);
    return event;
  }

  async function readRecorded(log: OpenLog, { invocation, version }: Began): Promise<RecordedTurn> {
    const events: NumberedEvent[] = [];
    for await (const event of logs.events(log.id, version - 1)) {
      if (!("invocation" in event) || event.invocation !== invocation || event.type.startsWith("turn.")) continue;
      events.push(event);
      if (event.type === "agent.ended" && event.last) {
        return { session: log.id, invocation, events, outcome: event.outcome };
      }
    }
    return { session: log.id, invocation, events, outcome: "abandoned" };
  }

  return {
    /**
     * Decides based on a log that was just refreshed. Returns the turn to continue, the recorded turn for a retry, or
     * undefined to start a new turn. Commits nothing.
     */
    async decide(log: OpenLog, request: TurnRequest): Promise<Decision> {
      const { turn } = log.session.conversation ?? {};
      const began = await findBegan(log, request);
      if (began && turn?.invocation !== began.invocation) return { recorded: await readRecorded(log, began) };
      // A retry of an interrupted turn continues it. A different message abandons it.
      return turn && (began || request.isContinuing) ? { open: turn } : undefined;
    },
  };
}

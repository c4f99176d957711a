// Finds the recorded answer for a retried call, and checks that no rewind has undone it.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import type { EventOf, NumberedEvent } from "../core/event.ts";
import { callKey, settledKey } from "../core/event-key.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isInForce } from "../core/session.ts";
import { exclusive, type Caller } from "./exclusive.ts";
import type { Call } from "./call-types.ts";
import type { Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

type Recorded = (EventOf<"tool.called"> | EventOf<"tool.settled"> | EventOf<"tool.claimed">) & { version: number };

/**
 * Returns the event with a call's answer, or the call's claim if there is no answer yet. Acquires the log if it must
 * refresh it, so the caller must not hold the log.
 */
export async function recordedEvent(
  logs: Logs,
  log: OpenLog,
  call: Caller & { id: string; tool: string; input: Json; episode: number },
): Promise<Recorded | undefined> {
  const { id, tool, input, episode } = call;
  const event = await logs.find(log.id, callKey(episode, id), call);
  if (event?.type !== "tool.called" && event?.type !== "tool.claimed") return undefined;
  if (event.tool !== tool || !equalJson(event.input, input)) {
    throw new HoldfastError(
      "call_conflict",
      `the call id ${id} was already used for a different call of ${event.tool}`,
      {
        detail: { call: id, tool: event.tool },
      },
    );
  }
  const settled = event.type === "tool.claimed" && (await logs.find(log.id, settledKey(event.episode, id), call));
  const answering = settled && settled.type === "tool.settled" ? settled : event;
  // A rewind may follow an event that is newer than the session in memory, so refresh first.
  if (answering.version > log.session.version) await exclusive(log, undefined, () => logs.refresh(log), call);
  if (!isInForce(log.session, answering.version)) throw undone(id);
  return answering;
}

/**
 * Minimum milliseconds between a call and its retry. A client that lost an answer waits longer than this. Concurrent
 * calls arrive sooner.
 */
const retriesAfter = 250;

/**
 * Returns whether a call without an id may be a retry: the session is exactly one event ahead of the version that the
 * caller saw. Model exchanges do not count, because the caller's harness requested them.
 */
export function mayBeLost({ seen, log: { session } }: Call): boolean {
  if (seen === undefined) return false;
  const ahead = session.version - seen.version;
  if (ahead === 1) return seen.asked - session.touched >= retriesAfter;
  return ahead > 1 && session.models !== undefined && ahead <= session.models.calls + 1;
}

/**
 * Returns the event with the lost answer, if a call without an id is a retry. That event must be the only one that the
 * caller has not seen, and must be the same call. The version that the caller saw must be the version of a call. If a
 * client never updates that version, or makes the same call twice concurrently, each call is new.
 */
export async function lostAnswer(
  logs: Logs,
  { log, tool, input, seen }: Call,
): Promise<(EventOf<"tool.called"> & { version: number }) | undefined> {
  if (!seen) return undefined;
  const events: NumberedEvent[] = [];
  for await (const event of logs.events(log.id, seen.version - 1)) {
    if (event.version > log.session.version) break;
    if (event.type !== "model.called") events.push(event);
  }
  const [before, newest] = events;
  if (before?.type !== "tool.called" || newest?.type !== "tool.called" || events.length > 2) return undefined;
  if (before.version !== seen.version || seen.asked - newest.at < retriesAfter) return undefined;
  const isSame = newest.tool === tool && newest.call === undefined && equalJson(newest.input, input);
  return isSame ? newest : undefined;
}

export function undone(id: string): HoldfastError {
  return new HoldfastError("call_undone", `a rewind undid the call ${id}; use a new call id`);
}

/** Checks a call id. Every store must keep it unchanged and index it, so it is short and has no lone surrogates. */
export function assertCallId(id: unknown): void {
  if (id === undefined || (typeof id === "string" && /^\P{Surrogate}{1,256}$/u.test(id))) return;
  throw invalidOption("a call id must be a string of 1 to 256 characters");
}

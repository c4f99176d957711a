// Finds the recorded answer for a retried call, and checks that no rewind has undone it.
import { HoldfastError, invalidOption } from "../core/errors.ts";
import { callKey, settledKey, type EventOf, type NumberedEvent } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isInForce } from "../core/session.ts";
import { exclusive } from "./exclusive.ts";
import type { Call } from "./call-types.ts";
import type { Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

type Recorded = (EventOf<"tool.called"> | EventOf<"tool.settled"> | EventOf<"tool.claimed">) & { version: number };

/**
 * Returns the event with the answer, or the claim if there is no answer yet. Takes the log exclusively if it must
 * refresh.
 */
export async function recordedEvent(
  logs: Logs,
  log: OpenLog,
  call: { id: string; tool: string; input: Json; episode: number },
): Promise<Recorded | undefined> {
  const { id, tool, input, episode } = call;
  const event = await logs.find(log.id, callKey(episode, id), log.waited);
  if (event?.type !== "tool.called" && event?.type !== "tool.claimed") return undefined;
  if (event.tool !== tool || !equalJson(event.input, input)) {
    throw new HoldfastError("call_conflict", `the call id ${id} was used before, for another call of ${event.tool}`, {
      detail: { call: id, tool: event.tool },
    });
  }
  const settled = event.type === "tool.claimed" && (await logs.find(log.id, settledKey(event.episode, id), log.waited));
  const answering = settled && settled.type === "tool.settled" ? settled : event;
  // The event is newer than the part this process has read, so a rewind may follow it.
  if (answering.version > log.session.version) await exclusive(log, undefined, () => logs.refresh(log));
  if (!isInForce(log.session, answering.version)) throw undone(id);
  return answering;
}

/** Milliseconds. A client that lost an answer waits this long before it retries; a client's concurrent calls do not. */
const retriesAfter = 250;

/**
 * Returns whether a call without an id may be a retry: the session was one event ahead of its caller at the time of the
 * call.
 */
export function mayBeLost({ seen, log: { session } }: Call): boolean {
  return seen !== undefined && session.version === seen.version + 1 && seen.asked - session.touched >= retriesAfter;
}

/**
 * Returns the event for a call without an id if the caller did not get its answer. It must be the only event that the
 * caller has not seen, and the same call. The caller's version must come from a call's answer. If a client never
 * updates its version, or makes the same call twice at once, each call is new.
 */
export async function lostAnswer(
  logs: Logs,
  { log, tool, input, seen }: Call,
): Promise<(EventOf<"tool.called"> & { version: number }) | undefined> {
  if (!seen) return undefined;
  const events: NumberedEvent[] = [];
  for await (const event of logs.events(log.id, seen.version - 1)) events.push(event);
  const [before, newest] = events;
  if (before?.type !== "tool.called" || newest?.type !== "tool.called") return undefined;
  const isSame = newest.tool === tool && newest.call === undefined && equalJson(newest.input, input);
  return isSame ? newest : undefined;
}

export function undone(id: string): HoldfastError {
  return new HoldfastError("call_undone", `the call ${id} was undone by a rewind; use a new call id`);
}

/** Call ids must be text that every store keeps unchanged: without lone surrogates, and short enough for an index. */
export function assertCallId(id: unknown): void {
  if (id === undefined || (typeof id === "string" && /^\P{Surrogate}{1,256}$/u.test(id))) return;
  throw invalidOption("a call id is a string of 1 to 256 characters");
}

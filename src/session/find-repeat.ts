// Repeats of a call: finds the recorded answer under its id, and whether a rewind undid it.
import { HoldfastError } from "../core/errors.ts";
import { callKey, settledKey, type EventOf, type NumberedEvent } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isInForce } from "../core/session.ts";
import { exclusive } from "./exclusive.ts";
import type { Call } from "./call-types.ts";
import type { Logs } from "./log.ts";
import type { OpenLog } from "./open-log.ts";

type Recorded = (EventOf<"tool.called"> | EventOf<"tool.settled"> | EventOf<"tool.claimed">) & { version: number };

/** The event that answers the call, or its claim if it has no answer yet. Takes the log exclusively if it must refresh. */
export async function recordedEvent(
  logs: Logs,
  log: OpenLog,
  call: { id: string; tool: string; input: Json; episode: number },
): Promise<Recorded | undefined> {
  const { id, tool, input, episode } = call;
  const event = await logs.find(log.id, callKey(episode, id));
  if (event?.type !== "tool.called" && event?.type !== "tool.claimed") return undefined;
  if (event.tool !== tool || !equalJson(event.input, input)) {
    throw new HoldfastError("call_conflict", `the call id ${id} was used before, for another call of ${event.tool}`, {
      detail: { call: id, tool: event.tool },
    });
  }
  const settled = event.type === "tool.claimed" && (await logs.find(log.id, settledKey(event.episode, id)));
  const answering = settled && settled.type === "tool.settled" ? settled : event;
  // Newer than this process has read: a rewind may follow it.
  if (answering.version > log.session.version) await exclusive(log, undefined, () => logs.refresh(log));
  if (!isInForce(log.session, answering.version)) throw undone(id);
  return answering;
}

/** A client that lost an answer waits before it asks again; calls that a client makes side by side do not wait. */
const retriesAfter = 250;

/** Whether a call without an id may be a repeat: the session is one event ahead of its caller, and was when it asked. */
export function mayBeLost({ seen, log: { session } }: Call): boolean {
  return seen !== undefined && session.version === seen.version + 1 && seen.asked - session.touched >= retriesAfter;
}

/**
 * The event of a call without an id whose answer its caller did not get. It is the only event that the caller has not seen,
 * and the same call. The caller has followed the versions: it has that of a call's answer. A client that never takes up a new
 * version makes new calls, and so does one that makes the same call twice at once.
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

/** Call ids are text that every store keeps unchanged: no lone surrogates, and short enough for an index. */
export function assertCallId(id: unknown): void {
  if (id === undefined || (typeof id === "string" && /^\P{Surrogate}{1,256}$/u.test(id))) return;
  throw new HoldfastError("invalid_option", "a call id is a string of 1 to 256 characters");
}

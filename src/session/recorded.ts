// Repeats of a call: finds what was recorded under its id, and whether that still counts.
import { HoldfastError } from "../core/errors.ts";
import { callKey, settledKey, type EventOf } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import type { Logs } from "./log.ts";

type Recorded = (EventOf<"tool.called"> | EventOf<"tool.settled"> | EventOf<"tool.claimed">) & { version: number };

/** The event that answers the call, or the claim of one that has no answer yet. */
export async function recordedEvent(
  logs: Logs,
  session: string,
  call: { id: string; tool: string; input: Json; episode: number },
): Promise<Recorded | undefined> {
  const { id, tool, input, episode } = call;
  const event = await logs.find(session, callKey(episode, id));
  if (event?.type !== "tool.called" && event?.type !== "tool.claimed") return undefined;
  if (event.tool !== tool || !equalJson(event.input, input)) {
    throw new HoldfastError("call_conflict", `the call id ${id} was used before, for another call of ${event.tool}`, {
      detail: { call: id, tool: event.tool },
    });
  }
  const settled = event.type === "tool.claimed" && (await logs.find(session, settledKey(event.episode, id)));
  const answering = settled && settled.type === "tool.settled" ? settled : event;
  if (!(await inForce(logs, session, answering.version))) throw undone(id);
  return answering;
}

export function undone(id: string): HoldfastError {
  return new HoldfastError("call_undone", `the call ${id} was undone by a rewind; use a new call id`);
}

/** Call ids are text that every store keeps as it is: no half of a surrogate pair, and not too long for an index. */
export function assertCallId(id: unknown): void {
  if (id === undefined || (typeof id === "string" && /^\P{Surrogate}{1,256}$/u.test(id))) return;
  throw new HoldfastError("invalid_option", "a call id is a string of 1 to 256 characters");
}

/** Whether an event is part of what the session is now, or was undone by a rewind. */
export async function inForce(logs: Logs, id: string, version: number): Promise<boolean> {
  const rewinds: { at: number; to: number }[] = [];
  for await (const event of logs.events(id, version)) {
    if (event.type === "session.rewound") rewinds.push({ at: event.version, to: event.to });
  }
  // Back from the newest version: everything since the last rewind counts, then everything up to where that one went.
  let position = Number.POSITIVE_INFINITY;
  for (const { at, to } of rewinds.reverse()) if (at <= position) position = to;
  return version <= position;
}

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
  if (!(await inForce(logs, session, event.version))) {
    throw new HoldfastError("call_undone", `the call ${id} was undone by a rewind; use a new call id`);
  }
  if (event.type === "tool.called") return event;
  const settled = await logs.find(session, settledKey(event.episode, id));
  return settled?.type === "tool.settled" ? settled : event;
}

/** Whether an event is part of what the session is now, or was undone by a rewind. */
async function inForce(logs: Logs, id: string, version: number): Promise<boolean> {
  const rewinds: { at: number; to: number }[] = [];
  for await (const event of logs.events(id, version)) {
    if (event.type === "session.rewound") rewinds.push({ at: event.version, to: event.to });
  }
  // Back from the newest version: everything since the last rewind counts, then everything up to where that one went.
  let position = Number.POSITIVE_INFINITY;
  for (const { at, to } of rewinds.reverse()) if (at <= position) position = to;
  return version <= position;
}

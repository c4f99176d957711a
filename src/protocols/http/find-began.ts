// findBegan(): the events at which a turn and its newest part began.
import type { EventOf } from "../../core/event.ts";
import type { Conversations } from "../../core/sessions.ts";

/** An event that begins a part of a turn: the user's message, or results from the client's tools. */
export type PartBegan = EventOf<"invocation.began" | "client.answered"> & { version: number };

export interface TurnBegan {
  turn: EventOf<"invocation.began"> & { version: number };
  /** The newest part. It is the turn itself, unless the client sent results. */
  part: PartBegan;
}

export async function findBegan(
  sessions: Conversations,
  session: string,
  invocation: string,
): Promise<TurnBegan | undefined> {
  let found: TurnBegan | undefined;
  for await (const event of sessions.events(session)) {
    if (!("invocation" in event) || event.invocation !== invocation) continue;
    if (event.type === "invocation.began") found = { turn: event, part: event };
    else if (event.type === "client.answered" && found) found.part = event;
  }
  return found;
}

// Repeats of a call: finds what was recorded under its id, and whether that still counts.
import { HoldfastError } from "../core/errors.ts";
import { callKey, settledKey, type EventOf } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isInForce } from "../core/session.ts";
import { turn, type Hot, type Logs } from "./log.ts";

type Recorded = (EventOf<"tool.called"> | EventOf<"tool.settled"> | EventOf<"tool.claimed">) & { version: number };

/** The event that answers the call, or the claim of one that has no answer yet. Not in a turn: it may want one. */
export async function recordedEvent(
  logs: Logs,
  hot: Hot,
  call: { id: string; tool: string; input: Json; episode: number },
): Promise<Recorded | undefined> {
  const { id, tool, input, episode } = call;
  const event = await logs.find(hot.id, callKey(episode, id));
  if (event?.type !== "tool.called" && event?.type !== "tool.claimed") return undefined;
  if (event.tool !== tool || !equalJson(event.input, input)) {
    throw new HoldfastError("call_conflict", `the call id ${id} was used before, for another call of ${event.tool}`, {
      detail: { call: id, tool: event.tool },
    });
  }
  const settled = event.type === "tool.claimed" && (await logs.find(hot.id, settledKey(event.episode, id)));
  const answering = settled && settled.type === "tool.settled" ? settled : event;
  // Newer than what this process has seen: a rewind may have come after it.
  if (answering.version > hot.session.version) await turn(hot, undefined, () => logs.refresh(hot));
  // A call of an earlier episode was not undone by what came after that.
  if (episode === hot.session.episode && !isInForce(hot.session, answering.version)) throw undone(id);
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

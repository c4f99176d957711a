// Repeats of a call: finds the recorded answer under its id, and whether a rewind undid it.
import { HoldfastError } from "../core/errors.ts";
import { callKey, settledKey, type EventOf } from "../core/event.ts";
import { equalJson, type Json } from "../core/json.ts";
import { isInForce } from "../core/session.ts";
import { exclusive } from "./exclusive.ts";
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

export function undone(id: string): HoldfastError {
  return new HoldfastError("call_undone", `the call ${id} was undone by a rewind; use a new call id`);
}

/** Call ids are text that every store keeps unchanged: no lone surrogates, and short enough for an index. */
export function assertCallId(id: unknown): void {
  if (id === undefined || (typeof id === "string" && /^\P{Surrogate}{1,256}$/u.test(id))) return;
  throw new HoldfastError("invalid_option", "a call id is a string of 1 to 256 characters");
}

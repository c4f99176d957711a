// Classifies events: their lanes on the timeline, and their titles.
import type { EventOf, NumberedEvent } from "../../../../src/core/event.ts";
import { number } from "../../parts/format.ts";

export type Lane =
  | "seed"
  | "message"
  | "call"
  | "failed call"
  | "answer"
  | "state write"
  | "agent step"
  | "failure"
  | "verdict"
  | "rewind"
  | "close";

/** In display order. */
export const lanes: Lane[] = [
  ...(["seed", "message", "answer", "call", "failed call", "state write", "agent step"] as const),
  ...(["failure", "verdict", "rewind", "close"] as const),
];

/** The lanes of an event. An agent's event is in two lanes if its callbacks wrote state, which is stored with it. */
export function lanesOf(event: NumberedEvent): Lane[] {
  switch (event.type) {
    case "session.opened":
    case "session.seeded":
      return ["seed"];
    case "tool.called":
    case "tool.settled":
      return [event.outcome.ok ? "call" : "failed call"];
    case "tool.claimed":
    case "tools.started":
      return ["call"];
    case "session.verified":
      return ["verdict"];
    case "session.rewound":
      return ["rewind"];
    case "session.closed":
      return ["close"];
    case "invocation.began":
    case "client.answered":
      return ["message"];
    case "model.called":
      return ["answer"];
    case "model.answered":
      return isWritten(event) ? ["answer", "state write"] : ["answer"];
    case "tools.answered":
      return [event.failed ? "failed call" : "call"];
    case "turn.taken":
    case "turn.renewed":
    case "turn.released":
      return ["agent step"];
    case "agent.began":
    case "agent.ended":
      return isWritten(event) ? ["agent step", "state write"] : ["agent step"];
    case "agent.failed":
    case "verify.failed":
      return ["failure"];
    case "shared.changed":
    case "session.updated":
      return ["state write"];
  }
}

const isWritten = (event: NumberedEvent): boolean => event.delta !== undefined || "shared" in event;

/** Returns whether an event has a reward. A refused verify request has none. */
export const isVerdict = (event: NumberedEvent): event is EventOf<"session.verified"> & NumberedEvent =>
  event.type === "session.verified" && !event.refused;

/** A short title for the event. */
export function titleOf(event: NumberedEvent): string {
  switch (event.type) {
    case "session.opened":
      return event.parent ? `forked at version ${event.parent.version}` : "opened";
    case "session.seeded":
      return `seeded: episode ${event.episode}`;
    case "tool.called":
    case "tool.settled":
      return event.outcome.ok ? event.tool : `${event.tool} failed: ${event.outcome.error.code}`;
    case "tool.claimed":
      return `${event.tool} started`;
    case "session.verified":
      if (event.refused) return "verify refused";
      return event.judged === event.version - 1
        ? `verified: reward ${number(event.verdict.reward)}`
        : `verified version ${event.judged}: reward ${number(event.verdict.reward)}`;
    case "verify.failed":
      return "verify failed";
    case "session.rewound":
      return `rewound to version ${event.to}`;
    case "session.closed":
      return event.reason === "closed" ? "closed" : `ended by ${event.reason}`;
    case "shared.changed":
      return "shared state changed";
    case "session.updated":
      return "state updated";
    case "turn.taken":
      return "the turn moved to another process";
    case "turn.renewed":
      return "the turn is still running";
    case "turn.released":
      return `the turn stopped: ${event.reason}`;
    case "invocation.began":
      return "user message";
    case "client.answered":
      return "results from the client";
    case "agent.began":
      return `${event.agent} started`;
    case "model.called":
      return `${event.model} answered`;
    case "model.answered":
      return event.model === undefined ? "a callback answered" : `${event.model} answered`;
    case "tools.started":
      return "tools started";
    case "tools.answered":
      return event.transfer === undefined ? "tool outputs" : `handed over to ${event.transfer}`;
    case "agent.ended":
      return `${event.agent} ended: ${event.outcome}`;
    case "agent.failed":
      return `${event.step} failed: ${event.error.code}`;
  }
}

/** Says when the writes of callbacks are stored; undefined if no callback can have written. */
export function committedWith(event: NumberedEvent): string | undefined {
  if (!isWritten(event)) return undefined;
  switch (event.type) {
    case "agent.began":
      return "written by beforeAgent callbacks; stored with this event, before the first model call";
    case "model.answered":
      return "written by model callbacks or the output key; stored with the answer";
    case "tools.answered":
      return "written by tools or tool callbacks; stored with the tool outputs";
    case "agent.ended":
      return "written by afterAgent callbacks; stored with this event";
    default:
      return undefined;
  }
}

/** The next version in the lane after `version`, wrapping around after the last. */
export function nextIn(versions: readonly number[], version: number): number | undefined {
  return versions.find((found) => found > version) ?? versions[0];
}

// Compares recorded events with the events of a replay, and describes them in messages.
import { changed, type Delta } from "../core/delta.ts";
import type { Event } from "../core/event.ts";
import { showJson } from "../core/ellipsis.ts";
import { copyJson, equalJson, firstDifference, unescapeKey, type Json } from "../core/json.ts";

export interface Difference {
  same: false;
  /** The version of the first event that differs. */
  version: number;
  /** The recorded and the replayed value, either for the first field that differs or for the whole event. */
  expected: unknown;
  actual: unknown;
  message: string;
}

/** Event fields that are not compared: times, run ids, token usage, log lines, and effects of concurrent writers. */
const notCompared = new Set([
  "at",
  "version",
  "invocation",
  "usage",
  "randomness",
  "labels",
  "environment",
  "delta",
  "shared",
  "log",
  "thrown",
  "call",
  "digest",
  "lease",
  "overwrote",
  "refused",
]);

/** Returns an event's fields to compare, without its changes to the state. */
export function comparableFields(event: Partial<Event>): Json {
  const fields = Object.entries(event).filter(([field]) => !notCompared.has(field));
  return copyJson(
    Object.fromEntries(fields.map(([field, value]) => [field, comparable(field, value)])),
    "the event",
    "drop",
  );
}

function comparable(field: string, value: unknown): unknown {
  // The model's name is ignored. It only matters whether a model was asked.
  if (field === "model") return true;
  const { code, message } = Object(value) as { code?: unknown; message?: unknown };
  if (field !== "error" || code !== "callback_failed" || typeof message !== "string") return value;
  // Removes the prefix that names the callback, because it differs between versions. Older versions wrote "a callback
  // failed (model):", newer ones "beforeModel of agent a failed:".
  return {
    code,
    message: message.replace(/^(?:a callback failed \(\w+\)|\S+ of agent \S+ failed|the step \w+ failed): /, ""),
  };
}

const prefixes = ["environment:", "gym:", "mcp:"];

/** Returns whether a state key locates an episode. The value of such a key differs in every session and replay. */
const isHandle = (key: string): boolean => prefixes.some((prefix) => key.startsWith(prefix));

/** Returns a state change without the keys that locate an episode. */
function comparableDelta(delta: Delta = []): Delta {
  return delta.flatMap((operation) => {
    const [, key = ""] = operation.path.split("/");
    if (isHandle(unescapeKey(key))) return [];
    if (operation.path !== "" || operation.op === "remove") return [operation];
    return [{ ...operation, value: withoutHandles(operation.value) }];
  });
}

function withoutHandles(state: Json): Json {
  return Object.fromEntries(Object.entries(Object(state) as object).filter(([key]) => !isHandle(key))) as Json;
}

/** Compares two changes of a state. Two deltas count as equal if they lead to the same state. */
export function differentChange(state: Json, expected: Delta, actual: Delta): ReturnType<typeof firstDifference> {
  const [recorded, now] = [comparableDelta(expected), comparableDelta(actual)];
  if (equalJson(recorded as Json, now as Json)) return undefined;
  try {
    if (equalJson(changed(state, recorded), changed(state, now))) return undefined;
  } catch {
    // The recorded delta cannot be applied to the current state.
  }
  return firstDifference({ delta: recorded as Json }, { delta: now as Json });
}

/** Describes the first difference between two events for a message. */
export function inWords({ pointer, values: [expected, actual] }: NonNullable<ReturnType<typeof firstDifference>>) {
  return `${pointer} was ${showJson(expected, 300)} in the recording and is now ${showJson(actual, 300)}`;
}

/** Names an event in a message. */
export function named(event: { type: string; agent?: string; version?: number }): string {
  return event.agent === undefined ? event.type : `${event.type} of ${event.agent}`;
}

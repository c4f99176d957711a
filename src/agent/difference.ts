// Where two events differ, in words: for a replay, which has the one that was recorded and the one that came now.
import type { Delta } from "../core/delta.ts";
import type { Event } from "../core/event.ts";
import { copyJson, equalJson, escapeKey, unescapeKey, type Json } from "../core/json.ts";
import { isHandle } from "./episodes.ts";

export interface Difference {
  same: false;
  /** That of the first event that is not the same. */
  version: number;
  /** What was recorded, and what came instead: in the first field that differs, or the whole event. */
  expected: unknown;
  actual: unknown;
  message: string;
}

/** Times, ids of a run, what a model's server counted, log lines, and what others did at the same time. */
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
  "call",
  "digest",
  "lease",
  "overwrote",
  "refused",
]);

/** What is compared of an event, less its changes of the state. */
export function shapeOf(event: Partial<Event>): Json {
  const fields = Object.entries(event).filter(([field]) => !notCompared.has(field));
  return copyJson(
    // Which model it was does not matter, only whether one was asked.
    Object.fromEntries(fields.map(([field, value]) => [field, field === "model" ? true : value])),
    "the event",
    "drop",
  );
}

/** A change of the state, less what says where an episode is played. */
export function comparableDelta(delta: Delta = []): Delta {
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

/** The first place at which two values differ, as a JSON Pointer. */
export function firstDifference(
  expected: Json | undefined,
  actual: Json | undefined,
  pointer = "",
): { pointer: string; expected: Json | undefined; actual: Json | undefined } | undefined {
  if (equalJson(expected, actual)) return undefined;
  if (isContainer(expected) && isContainer(actual) && Array.isArray(expected) === Array.isArray(actual)) {
    const keys = new Set([...Object.keys(expected), ...Object.keys(actual)]);
    for (const key of keys) {
      const below = firstDifference(childOf(expected, key), childOf(actual, key), `${pointer}/${escapeKey(key)}`);
      if (below) return below;
    }
  }
  return { pointer, expected, actual };
}

type Container = { [key: string]: Json };

const isContainer = (value: Json | undefined): value is Container => typeof value === "object" && value !== null;
const childOf = (value: Container, key: string): Json | undefined =>
  Object.hasOwn(value, key) ? value[key] : undefined;

const mostText = 300;

/** A value as a message shows it. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length > mostText ? `${text.slice(0, mostText)}…` : text;
}

/** An event as a message names it. */
export function named(event: { type: string; agent?: string; version?: number }): string {
  return event.agent === undefined ? event.type : `${event.type} of ${event.agent}`;
}

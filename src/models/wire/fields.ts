// Reading JSON that a server sent: nothing about it is known before it was looked at.
import { setOwn } from "../../core/json.ts";

export interface Fields {
  [name: string]: unknown;
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The objects in a list, or none if it is no list. */
export const listOf = (value: unknown): Fields[] => (Array.isArray(value) ? value.filter(isFields) : []);

// Loops, here and below: entries that are filtered and put together again take several times as long.

/** All fields but those. */
export function without(fields: Fields, ...names: string[]): Fields {
  return addOthers({}, fields, names);
}

/** Adds all fields but those to an object, which it gives. */
export function addOthers<T extends object>(to: T, fields: Fields, names: string[]): T & Fields {
  const added = to as T & Fields;
  for (const name of Object.keys(fields)) if (!names.includes(name)) setOwn(added, name, fields[name]);
  return added;
}

/** All fields that have a value: what is null or undefined says nothing. */
export function present(fields: Fields): Fields {
  const kept: Fields = {};
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (value !== undefined && value !== null) setOwn(kept, name, value);
  }
  return kept;
}

/** A string that has something in it. */
export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** A number, or 0. */
export const countIn = (value: unknown): number => (typeof value === "number" ? value : 0);

/** The value of a JSON text, or undefined if it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Adds a part of a streamed value to what came before: lists and objects grow, strings too if `strings` says so, and
 * of the rest the last one stands.
 */
function grown(before: unknown, part: unknown, strings: "join" | "replace"): unknown {
  if (part === undefined || part === null) return before ?? part;
  if (Array.isArray(before) && Array.isArray(part)) {
    // In place: a copy for each of a hundred thousand parts would take the square of that.
    for (const item of part) before.push(item);
    return before;
  }
  if (typeof before === "string" && typeof part === "string" && strings === "join") return before + part;
  if (isFields(before) && isFields(part)) {
    growFields(before, part, strings);
    return before;
  }
  return part;
}

/** The same for every field, in place. */
export function growFields(before: Fields, part: Fields, strings: "join" | "replace"): void {
  for (const [name, value] of Object.entries(part)) {
    setOwn(before, name, grown(Object.hasOwn(before, name) ? before[name] : undefined, value, strings));
  }
}

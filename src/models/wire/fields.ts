// Reads JSON from a server, without trusting its types.
import { setOwn } from "../../core/json.ts";

export interface Fields {
  [name: string]: unknown;
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the objects of a list; an empty list for any other value. */
export const objectsIn = (value: unknown): Fields[] => (Array.isArray(value) ? value.filter(isFields) : []);

// Uses loops, here and below, because filtering entries and joining them again takes several times as long.

/** Returns all other fields. */
export function without(fields: Fields, ...names: string[]): Fields {
  return addOthers({}, fields, names);
}

/** Adds all other fields to an object, and returns it. */
export function addOthers<T extends object>(to: T, fields: Fields, names: string[]): T & Fields {
  const added = to as T & Fields;
  for (const name of Object.keys(fields)) if (!names.includes(name)) setOwn(added, name, fields[name]);
  return added;
}

/** Returns the fields that are neither null nor undefined. */
export function present(fields: Fields): Fields {
  const kept: Fields = {};
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (value !== undefined && value !== null) setOwn(kept, name, value);
  }
  return kept;
}

/** Returns a string that is not empty. */
export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Returns a number; 0 for any other value. */
export const countIn = (value: unknown): number => (typeof value === "number" ? value : 0);

/**
 * Adds a part to a streamed value. Lists and objects grow, and so do strings with "join". Any other value is replaced.
 */
function grown(before: unknown, part: unknown, strings: "join" | "replace"): unknown {
  if (part === undefined || part === null) return before ?? part;
  if (Array.isArray(before) && Array.isArray(part)) {
    // Done in place, because copying the list for each of 100,000 parts would take quadratic time.
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

/** Does so for every field, in place. */
export function growFields(before: Fields, part: Fields, strings: "join" | "replace"): void {
  for (const [name, value] of Object.entries(part)) {
    setOwn(before, name, grown(Object.hasOwn(before, name) ? before[name] : undefined, value, strings));
  }
}

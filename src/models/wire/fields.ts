// Reads JSON from a server, without trusting its types.
import { isObject, setOwn } from "../../core/json.ts";

export interface Fields {
  [name: string]: unknown;
}

/** Returns the objects of a list; an empty list for any other value. */
export const objectsIn = (value: unknown): Fields[] => (Array.isArray(value) ? value.filter(isObject) : []);

// These functions use loops, because filtering entries and joining them again takes several times as long.

/** Returns the fields except the named fields. */
export function without(fields: Fields, ...names: string[]): Fields {
  return addOthers({}, fields, names);
}

/** Adds the fields except the named fields to an object, and returns the object. */
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

/** Returns a string that is not empty; undefined for any other value. */
export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Returns a number; 0 for any other value. */
export const countIn = (value: unknown): number => (typeof value === "number" ? value : 0);

/** Adds a part to a streamed value. Lists and objects grow, and strings with "join". Other values are replaced. */
function grown(before: unknown, part: unknown, strings: "join" | "replace"): unknown {
  if (part === undefined || part === null) return before ?? part;
  if (Array.isArray(before) && Array.isArray(part)) {
    // Changes the list in place, because copying it for each of 100,000 parts would take quadratic time.
    for (const item of part) before.push(item);
    return before;
  }
  if (typeof before === "string" && typeof part === "string" && strings === "join") return before + part;
  if (isObject(before) && isObject(part)) {
    growFields(before, part, strings);
    return before;
  }
  return part;
}

/** Adds the parts of every field to an object, in place. */
export function growFields(before: Fields, part: Fields, strings: "join" | "replace"): void {
  for (const [name, value] of Object.entries(part)) {
    setOwn(before, name, grown(Object.hasOwn(before, name) ? before[name] : undefined, value, strings));
  }
}

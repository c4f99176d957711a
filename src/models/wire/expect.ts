// Reads optional fields in an answer. A field of the wrong type makes the answer invalid, not empty.
import { isObject } from "../../core/json.ts";
import { broken } from "./fault.ts";
import type { Fields } from "./fields.ts";

/** Returns a list of objects; an empty list for a missing field. */
export function listIn(value: unknown, what: string): Fields[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every(isObject)) throw broken(`${what} that is not a list of objects`);
  return value;
}

/** Returns a string, which may be empty; undefined for a missing field. */
export function stringIn(value: unknown, what: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw broken(`${what} that is not a string`);
  return value;
}

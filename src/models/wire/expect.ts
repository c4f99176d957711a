// What a field of an answer must be if it is there. What is of another type is no empty answer: it is none.
import { broken } from "./fault.ts";
import { isFields, type Fields } from "./fields.ts";

/** A list of objects; none where there is no list. */
export function listIn(value: unknown, what: string): Fields[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every(isFields)) throw broken(`${what} that is no list of objects`);
  return value;
}

/** A text, maybe an empty one; undefined where there is none. */
export function stringIn(value: unknown, what: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw broken(`${what} that is no text`);
  return value;
}

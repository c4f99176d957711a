// JSON values: copies and compares them, and refuses any other value with the path to it.
import { HoldfastError } from "./errors.ts";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Maximum nesting depth. A deeper value is circular, or would overflow its readers' stack. */
const maxDepth = 500;

/** `drop` treats an undefined property as absent, as JSON.stringify does. `refuse` treats it as an error. */
type Undefined = "drop" | "refuse";

/**
 * Returns a deep copy of a JSON value. Refuses other values with the path to them, a JSON Pointer. `name` names the
 * whole value that contains this value; `at` is the position in the whole value.
 */
export function copyJson(value: unknown, name: string, undefinedProperty: Undefined = "refuse", at = ""): Json {
  // Depth counts from the root of the whole value. Otherwise many small changes could make it too deep to read.
  const depth = at === "" ? 0 : at.split("/").length - 1;
  const copied = copy(value, undefinedProperty, depth);
  if (copied !== refused) return copied;
  const { path, what } = findRefused(value, undefinedProperty, at, depth) ?? { path: at, what: "not JSON" };
  throw new HoldfastError("not_json", `${name}${path} is ${what}; only JSON can be kept`, {
    detail: { path },
  });
}

// The fast walk only detects that there is a problem; the slow walk locates it.
const refused = Symbol("refused");

function copy(value: unknown, undefinedProperty: Undefined, depth: number): Json | typeof refused {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      // JSON has no -0. Converting it keeps the state equal to a reloaded one.
      return Number.isFinite(value) ? (value === 0 ? 0 : value) : refused;
    case "object":
      break;
    default:
      return refused;
  }
  if (value === null) return null;
  if (depth === maxDepth) return refused;
  if (Array.isArray(value)) {
    const length = value.length;
    if (length === 1) {
      const item = copy(value[0], undefinedProperty, depth + 1);
      // Avoids push, which reserves 17 places: nested lists would take much memory.
      return item === refused ? refused : [item];
    }
    const result: Json[] = [];
    for (let index = 0; index < length; index++) {
      const item = copy(value[index], undefinedProperty, depth + 1);
      if (item === refused) return refused;
      result.push(item);
    }
    return result;
  }
  if (!isPlain(value)) return refused;
  const result: { [key: string]: Json } = {};
  for (const key of Object.keys(value)) {
    const property: unknown = (value as Record<string, unknown>)[key];
    if (property === undefined && undefinedProperty === "drop") continue;
    const item = copy(property, undefinedProperty, depth + 1);
    if (item === refused) return refused;
    setOwn(result, key, item);
  }
  return result;
}

function findRefused(
  value: unknown,
  undefinedProperty: Undefined,
  path: string,
  depth: number,
): { path: string; what: string } | undefined {
  if (typeof value !== "object" || value === null) {
    return copy(value, undefinedProperty, 0) === refused ? { path, what: describe(value) } : undefined;
  }
  if (depth === maxDepth) return { path: "", what: `nested deeper than ${maxDepth} levels, or contains itself` };
  if (!Array.isArray(value) && !isPlain(value)) return { path, what: describe(value) };
  const isArray = Array.isArray(value);
  const keys = isArray ? value.keys() : Object.keys(value);
  for (const key of keys) {
    const property: unknown = (value as Record<string, unknown>)[key];
    if (property === undefined && undefinedProperty === "drop" && !isArray) continue;
    const found = findRefused(property, undefinedProperty, `${path}/${escapeKey(String(key))}`, depth + 1);
    if (found) return found;
  }
  return undefined;
}

function describe(value: unknown): string {
  if (value === undefined) return "undefined (use `delete` to remove a key)";
  if (typeof value !== "object") return typeof value === "number" ? String(value) : `a ${typeof value}`;
  const name = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof name === "string" && name !== "" ? `a ${name}` : "an object with a prototype or symbols of its own";
}

// A plain object from any realm: its prototype is null or an Object.prototype.
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return noSymbols(value);
  return (
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype as object, "hasOwnProperty") &&
    noSymbols(value)
  );
}

function noSymbols(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length === 0;
}

/** Returns whether a value is an object, and neither an array nor null. */
export const isObject = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns an object's fields; {} for any other value. */
export const toFields = (value: Json | undefined): { [field: string]: Json } => (isObject(value) ? value : {});

/** Sets a key as plain data, even `__proto__`. */
export function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    target[key] = value;
  }
}

/** Parses JSON; returns undefined for any other text. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Parses JSON; returns any other text unchanged. */
export function jsonOrText(text: string): Json {
  const value = parseJson(text);
  return value === undefined ? text : value;
}

/** Compares JSON values; the order of keys is ignored. */
export function equalJson(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => equalJson(item, b[index]));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && equalJson(a[key], b[key]));
}

/** Finds the first difference between two values: its path, a JSON Pointer, and both values there. */
export function firstDifference(
  a: Json | undefined,
  b: Json | undefined,
  pointer = "",
): { pointer: string; values: [Json | undefined, Json | undefined] } | undefined {
  if (equalJson(a, b)) return undefined;
  if (isContainer(a) && isContainer(b) && Array.isArray(a) === Array.isArray(b)) {
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
      const child = (of: object): Json | undefined =>
        Object.getOwnPropertyDescriptor(of, key)?.value as Json | undefined;
      const below = firstDifference(child(a), child(b), `${pointer}/${escapeKey(key)}`);
      if (below) return below;
    }
  }
  return { pointer, values: [a, b] };
}

export const isContainer = (value: Json | undefined): value is Json & object =>
  typeof value === "object" && value !== null;

/** Escapes one step of a JSON Pointer (RFC 6901). */
export function escapeKey(key: string): string {
  return key.includes("~") || key.includes("/") ? key.replaceAll("~", "~0").replaceAll("/", "~1") : key;
}

export function unescapeKey(key: string): string {
  return key.includes("~") ? key.replaceAll("~1", "/").replaceAll("~0", "~") : key;
}

/** Freezes a value deeply, so that code that receives it cannot change it. */
export function freezeJson<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const item of Object.values(value)) freezeJson(item);
  return value;
}

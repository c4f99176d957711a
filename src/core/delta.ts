// Applies deltas. A delta is one event's change to the state, as JSON Patch (RFC 6902).
import { HoldfastError } from "./errors.ts";
import { setOwn, unescapeKey, type Json } from "./json.ts";

/** The operations of RFC 6902 that drafts use. `path` is a JSON Pointer; "" is the whole state. */
export type Operation =
  | { op: "add"; path: string; value: Json }
  | { op: "replace"; path: string; value: Json }
  | { op: "remove"; path: string };

export type Delta = Operation[];

/** Objects that nothing else references. */
export type Owned = Pick<Set<object>, "has" | "add"> | WeakSet<object>;

export const topKey = (path: string): string => unescapeKey(path.split("/", 2)[1] ?? "");

export function replaceState(state: Json): Delta {
  return [{ op: "replace", path: "", value: state }];
}

/**
 * Returns the state after the delta. By default it changes the state in place: the cost depends on the size of the
 * change, not of the state. In that case nothing else may hold the state.
 *
 * If others hold it too, pass `owned`: objects not in that set are copied before they change, and the copies are added
 * to the set. Only objects on the path to a change are copied.
 */
export function applyDelta(state: Json, delta: Delta, owned?: Owned): Json {
  let root = state;
  for (const operation of delta) {
    if (operation.path === "") {
      if (operation.op === "remove") throw misfit(operation);
      root = operation.value;
      continue;
    }
    root = own(root, owned);
    // Fast path: most changes are to top-level keys.
    if (operation.path.lastIndexOf("/") === 0) {
      change(root, unescapeKey(operation.path.slice(1)), operation);
      continue;
    }
    const keys = operation.path.split("/");
    let parent: Json = root;
    for (let depth = 1; depth < keys.length - 1; depth++) {
      const key = unescapeKey(keys[depth] as string);
      const child: Json = own(readChild(parent, key, operation), owned);
      if (owned) setChild(parent, key, child);
      parent = child;
    }
    change(parent, unescapeKey(keys.at(-1) as string), operation);
  }
  return root;
}

function own(value: Json, owned: Owned | undefined): Json {
  if (!owned || typeof value !== "object" || value === null || owned.has(value)) return value;
  // Spread defines `__proto__` as a plain property, as JSON.parse does.
  const copied = Array.isArray(value) ? value.slice() : { ...value };
  owned.add(copied);
  return copied;
}

function readChild(parent: Json, key: string, operation: Operation): Json {
  const found =
    typeof parent === "object" && parent !== null && Object.hasOwn(parent, key)
      ? (parent as { [key: string]: Json })[key]
      : undefined;
  if (found === undefined) throw misfit(operation);
  return found;
}

function setChild(parent: Json, key: string, child: Json): void {
  if (Array.isArray(parent)) parent[Number(key)] = child;
  else setOwn(parent as Record<string, unknown>, key, child);
}

function change(parent: Json, key: string, operation: Operation): void {
  if (typeof parent !== "object" || parent === null) throw misfit(operation);
  if (Array.isArray(parent)) {
    const index = key === "-" ? parent.length : Number(key);
    const limit = operation.op === "add" ? parent.length : parent.length - 1;
    if (!Number.isInteger(index) || index < 0 || index > limit) throw misfit(operation);
    if (operation.op === "replace") parent[index] = operation.value;
    else if (operation.op === "remove") parent.splice(index, 1);
    else if (index === parent.length) parent.push(operation.value);
    else parent.splice(index, 0, operation.value);
    return;
  }
  if (operation.op !== "add" && !Object.hasOwn(parent, key)) throw misfit(operation);
  if (operation.op === "remove") delete parent[key];
  else setOwn(parent, key, operation.value);
}

function misfit(operation: Operation): HoldfastError {
  return new HoldfastError(
    "store_corrupt",
    `a stored change cannot be applied to the state: ${operation.op} ${operation.path}`,
  );
}

/** Returns the state after a delta and leaves the original state unchanged. */
export function changed(state: Json, delta: Delta): Json {
  return delta.length === 0 ? state : applyDelta(state, delta, new Set());
}

// Merges a change that was made to one state into a newer state that others have changed.
import type { Delta, Operation } from "./delta.ts";
import { isRewrite } from "./draft-delta.ts";
import { equalJson, isObject, unescapeKey, type Json } from "./json.ts";

export interface Merged {
  delta: Delta;
  /** JSON Pointers to replaced values that others had changed. */
  overwrote: string[];
  /** JSON Pointers to values that both sides changed in ways that cannot be combined. They are left unchanged. */
  refused: string[];
}

/**
 * Returns the delta that makes the same change to `now`. `base` is the state that the original delta was made for.
 *
 * Keys of plain objects merge, unless `isReplaced` says that the other writer replaced the object at this pointer. A
 * value that was assigned or removed as a whole overrides other writers' changes. Elements appended to an array are
 * appended to the current array. Every other change to an array applies only if the array is still the array that the
 * writer saw. Otherwise the indexes in the change could mean other elements.
 */
export function merge(delta: Delta, base: Json, now: Json, isReplaced = (_pointer: string): boolean => false): Merged {
  if (base === now || delta.length === 0) return { delta, overwrote: [], refused: [] };
  const merged: Merged = { delta: [], overwrote: [], refused: [] };
  place(buildTree(delta), "", base, now, { merged, isReplaced });
  return merged;
}

interface Merging {
  merged: Merged;
  isReplaced: (pointer: string) => boolean;
}

/** A value that a delta changes. */
interface Node {
  /** All operations on this value or a value inside it, in order. */
  operations: Delta;
  /** The index of the last operation on the value itself; -1 if there is none. */
  whole: number;
  children: Map<string, Node>;
}

const newNode = (): Node => ({ operations: [], whole: -1, children: new Map() });

function buildTree(delta: Delta): Node {
  const root = newNode();
  for (const operation of delta) {
    let node = root;
    node.operations.push(operation);
    for (const key of operation.path.split("/").slice(1)) {
      let child = node.children.get(key);
      if (!child) {
        child = newNode();
        node.children.set(key, child);
      }
      child.operations.push(operation);
      node = child;
    }
    node.whole = node.operations.length - 1;
  }
  return root;
}

function place(node: Node, pointer: string, base: Json | undefined, now: Json | undefined, merging: Merging): void {
  const { operations, whole, children } = node;
  const { merged, isReplaced } = merging;
  const isBothObject = whole < 0 && isObject(base) && isObject(now) && base !== now;
  // The keys of a new object may mean something else. Asked last, because the answer may need the store.
  if (isBothObject && pointer !== "" && !equalJson(base, now) && isReplaced(pointer)) {
    return void merged.refused.push(pointer);
  }
  if (isBothObject) {
    for (const [key, child] of children) {
      const name = unescapeKey(key);
      place(child, `${pointer}/${key}`, readKey(base, name), readKey(now, name), merging);
    }
    return;
  }
  if (equalJson(base, now)) {
    addAll(operations, merged);
    return;
  }
  const assigned = operations[whole];
  if (assigned && !isRewrite(assigned)) {
    replace(assigned, now, merged);
    addAll(operations.slice(whole + 1), merged);
  } else if (isGrown(operations, pointer, base, now)) {
    for (const { value } of operations) merged.delta.push({ op: "add", path: `${pointer}/-`, value });
  } else {
    merged.refused.push(pointer);
  }
}

/** Does not use `push(...list)`, which overflows the stack if the list is long. */
function addAll(operations: Delta, { delta }: Merged): void {
  for (const operation of operations) delta.push(operation);
}

function replace(operation: Operation, now: Json | undefined, { delta, overwrote }: Merged): void {
  const { path } = operation;
  if (operation.op !== "remove") {
    // "add", because the value may have been removed by now. The whole state can only be replaced.
    delta.push({ op: path === "" ? "replace" : "add", path, value: operation.value });
    overwrote.push(path);
  } else if (now !== undefined) {
    delta.push(operation);
    overwrote.push(path);
  }
}

type Added = Extract<Operation, { op: "add" }>;

/** Returns whether the value is still an array and the operations only append to it. */
function isGrown(
  operations: Delta,
  pointer: string,
  base: Json | undefined,
  now: Json | undefined,
): operations is Added[] {
  if (!Array.isArray(base) || !Array.isArray(now)) return false;
  return operations.every(({ op, path }, at) => op === "add" && path === `${pointer}/${base.length + at}`);
}

function readKey(object: { [key: string]: Json }, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

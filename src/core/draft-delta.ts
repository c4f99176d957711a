// The delta of a draft: from what was changed beside a state to the operations that change the state.
import type { Delta, Operation } from "./delta.ts";
import { copyJson, escapeKey, type Json } from "./json.ts";

export type Container = { [key: string]: Json } | Json[];

/** What was done to one object or array of a state. */
export interface Changes {
  /** The object or array itself, untouched. */
  readonly base: Container;
  /** How it reads now. */
  readonly proxy: object;
  /** Keys that were assigned, or deleted (`gone`). */
  changes: Map<string, unknown> | undefined;
  /** Children that were changed, or have changed children. */
  dirty: Map<string, Changes> | undefined;
  /** Arrays only: the length now, and, once elements have moved, all elements as they are now. */
  length: number;
  copy: unknown[] | undefined;
}

/** Stands for the value of a key that was deleted. */
export const gone = Symbol("gone");

/** Under this key the object that stands in for a part of a state says what was done to it. */
export const behind = Symbol("behind");

export function nodeBehind(value: unknown): Changes | undefined {
  return isContainer(value) ? (value as { [behind]?: Changes })[behind] : undefined;
}

export function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

/** Adds the operations for one object or array and what is below it. */
export function collect(node: Changes, path: string, delta: Delta): void {
  if (node.copy) return collectMoved(node, node.copy, path, delta);
  const { base } = node;
  // Many removals are longer to write down than the few elements that are left.
  if (Array.isArray(base) && base.length - node.length > node.length) return collectWhole(node, path, delta);
  for (const [key, value] of node.changes ?? []) {
    const at = `${path}/${escapeKey(key)}`;
    const had = Object.hasOwn(base, key);
    if (value === gone && !Array.isArray(base)) {
      delta.push({ op: "remove", path: at });
    } else if (had && isSame(node, key, value)) {
      const child = nodeBehind(value);
      if (child) collect(child, at, delta);
    } else {
      delta.push({ op: had ? "replace" : "add", path: at, value: copyJson(present(value), "state", "refuse", at) });
    }
  }
  for (const [key, child] of node.dirty ?? []) {
    if (!node.changes?.has(key) && (!Array.isArray(base) || Number(key) < node.length)) {
      collect(child, `${path}/${escapeKey(key)}`, delta);
    }
  }
  if (Array.isArray(base)) {
    for (let index = base.length - 1; index >= node.length; index--) {
      delta.push({ op: "remove", path: `${path}/${index}` });
    }
  }
}

/** An element that was deleted is a hole, and reads as undefined. */
function present(value: unknown): unknown {
  return value === gone ? undefined : value;
}

/** Whether a key was assigned what it held already. */
function isSame(node: Changes, key: string, value: unknown): boolean {
  const before = (node.base as { [key: string]: Json })[key];
  return isContainer(before) ? isContainer(value) && nodeBehind(value)?.base === before : before === value;
}

/** An array whose elements moved: keeps what is equal at both ends, and replaces what is between. */
function collectMoved(node: Changes, copy: unknown[], path: string, delta: Delta): void {
  const base = node.base as Json[];
  const same = (value: unknown, index: number): boolean =>
    isContainer(base[index]) ? origin(value) === base[index] : value === base[index];
  const shorter = Math.min(base.length, copy.length);
  let head = 0;
  while (head < shorter && head in copy && same(copy[head], head)) head++;
  let tail = 0;
  while (tail < shorter - head && same(copy[copy.length - 1 - tail], base.length - 1 - tail)) tail++;
  const until = copy.length - tail;
  if (Math.max(base.length, copy.length) - tail - head >= copy.length) return collectWhole(node, path, delta);
  for (let index = base.length - tail - 1; index >= Math.max(head, until); index--) {
    delta.push({ op: "remove", path: `${path}/${index}` });
  }
  for (let index = head; index < until; index++) {
    const at = `${path}/${index}`;
    const op = index < base.length - tail ? "replace" : "add";
    delta.push({ op, path: at, value: copyJson(copy[index], "state", "refuse", at) });
  }
  copy.forEach((value, index) => {
    const child = nodeBehind(value);
    if (child && (index < head || index >= until)) collect(child, `${path}/${index}`, delta);
  });
}

// Beside the operation, not in it: a log has JSON Patch only.
const rewrites = new WeakSet<Operation>();

/** Whether an operation writes an array whole only because that is shorter. The code changed elements of it. */
export function isRewrite(operation: Operation): boolean {
  return rewrites.has(operation);
}

function collectWhole(node: Changes, path: string, delta: Delta): void {
  const operation: Operation = { op: "replace", path, value: copyJson(node.proxy, "state", "refuse", path) };
  rewrites.add(operation);
  delta.push(operation);
}

function origin(value: unknown): unknown {
  return nodeBehind(value)?.base ?? value;
}

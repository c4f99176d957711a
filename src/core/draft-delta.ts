// Computes the delta of a draft: the operations that apply its changes to the state.
import type { Delta, Operation } from "./delta.ts";
import { copyJson, escapeKey, type Json } from "./json.ts";

export type Container = { [key: string]: Json } | Json[];

/** The changes to one object or array in a state. */
export interface Changes {
  /** The original object or array, unchanged. */
  readonly base: Container;
  /** The draft of that object or array, with the changes. */
  readonly proxy: object;
  /** Assigned and deleted (`gone`) keys. */
  changes: Map<string, unknown> | undefined;
  /** Children with changes in or below them. */
  dirty: Map<string, Changes> | undefined;
  /** Arrays only: the current length and, once elements have moved, all current elements. */
  length: number;
  copy: unknown[] | undefined;
}

/** The value of a deleted key. */
export const gone = Symbol("gone");

/** The key under which a draft's proxy returns its changes. */
export const behind = Symbol("behind");

export function nodeBehind(value: unknown): Changes | undefined {
  return isContainer(value) ? (value as { [behind]?: Changes })[behind] : undefined;
}

export function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

/** Adds the operations for one object or array and all values below it. */
export function collect(node: Changes, path: string, delta: Delta): void {
  if (node.copy) return collectMoved(node, node.copy, path, delta);
  const { base } = node;
  // Many removals would take more space than writing the few remaining elements.
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

/** Returns undefined for a deleted element, which leaves a hole. */
function present(value: unknown): unknown {
  return value === gone ? undefined : value;
}

/** Returns whether a key was assigned the value that it already had. */
function isSame(node: Changes, key: string, value: unknown): boolean {
  const before = (node.base as { [key: string]: Json })[key];
  return isContainer(before) ? isContainer(value) && nodeBehind(value)?.base === before : before === value;
}

/** Adds the operations for an array whose elements moved. Equal elements at both ends stay; the middle is replaced. */
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

// The mark is kept outside the operation, because a log holds plain JSON Patch.
const rewrites = new WeakSet<Operation>();

/** Returns whether an operation replaces a whole array only because that is shorter than the single changes. */
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

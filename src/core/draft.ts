// A draft looks like the state, accepts normal assignments, and turns them into a delta. The state stays the same.
//
// A draft stores changes separately and does not copy the objects on the path to them. So changing one field costs the
// same in a state of one kilobyte and of five megabytes, however wide its objects are.
import type { Delta } from "./delta.ts";
import { behind, collect, gone, isContainer, nodeBehind, type Changes, type Container } from "./draft-delta.ts";
import type { Json } from "./json.ts";

export interface Draft<State> {
  /** The object that handlers read and assign to. */
  state: State;
  /** Returns a copy of the changes so far. If the code changes its own objects later, the copy is not affected. */
  delta(): Delta;
  /** Returns whether a top-level key, or a value below it, was assigned or removed. */
  isChanged(key: string): boolean;
  /** Refuses every later change with this reason. Otherwise a late assignment would be lost silently. */
  close(reason: string): void;
}

/** The reason why a state cannot be changed; undefined while it can. All parts of a draft share it. */
interface Lock {
  reason: string | undefined;
}

const lockedForever: Lock = { reason: "this state is read-only here" };

export function createDraft<State>(base: Json): Draft<State> {
  const lock: Lock = { reason: undefined };
  const root = new Node(base as Container, undefined, "", lock);
  return {
    state: root.proxy as State,
    close(reason) {
      lock.reason = reason;
    },
    delta() {
      const delta: Delta = [];
      collect(root, "", delta);
      return delta;
    },
    isChanged: (key) => (root.changes?.has(key) || root.dirty?.has(key)) ?? false,
  };
}

/** Returns a read-only view of the state. */
export function readOnly<State>(base: Json): State {
  return new Node(base as Container, undefined, "", lockedForever).proxy as State;
}

// console.log bypasses a Proxy's traps and prints its target. This makes it print the draft's values.
const inspect = Symbol.for("nodejs.util.inspect.custom");

/** An object or array of the state that the code has read. For an object, it is also the target of the proxy. */
class Node implements Changes {
  readonly base: Container;
  readonly parent: Node | undefined;
  /** The object's key in its parent, when it was first read. */
  readonly key: string;
  readonly lock: Lock;
  readonly proxy: object;
  /** Objects and arrays below this object or array that were read, by key. */
  children: Map<string, Node> | undefined = undefined;
  changes: Map<string, unknown> | undefined = undefined;
  dirty: Map<string, Node> | undefined = undefined;
  length = 0;
  copy: unknown[] | undefined = undefined;
  /** For copied arrays: the objects that the code added. Every other object is part of the state. */
  fresh: Set<unknown> | undefined = undefined;

  constructor(base: Container, parent: Node | undefined, key: string, lock: Lock) {
    this.base = base;
    this.parent = parent;
    this.key = key;
    this.lock = lock;
    if (Array.isArray(base)) {
      this.length = base.length;
      // Array.isArray checks the target of a proxy, so the target must be an array.
      const target = new ArrayTarget();
      target[0] = this;
      this.proxy = new Proxy<Node[]>(target, arrayTraps);
    } else {
      this.proxy = new Proxy<Node>(this, objectTraps);
    }
  }

  [inspect](): unknown {
    return plain(this);
  }
}

class ArrayTarget extends Array<Node> {
  [inspect](): unknown {
    return plain(this);
  }
}

function plain(value: unknown): unknown {
  if (!nodeBehind(value)) return value;
  if (Array.isArray(value)) return Array.from(value, plain);
  return Object.fromEntries(Object.entries(value as object).map(([key, item]) => [key, plain(item)]));
}

function draftChild(node: Node, key: string, value: Container): object {
  let child = node.children?.get(key);
  if (!child) {
    child = new Node(value, node, key, node.lock);
    node.children ??= new Map();
    node.children.set(key, child);
  }
  return child.proxy;
}

/** Called before every change. Refuses the change if the state is read-only; otherwise marks the parents as changed. */
function touch(node: Node): void {
  if (node.lock.reason !== undefined) throw new TypeError(node.lock.reason);
  for (let child = node; child.parent; child = child.parent) {
    const { parent, key } = child;
    if (parent.dirty?.has(key)) return;
    parent.dirty ??= new Map();
    parent.dirty.set(key, child);
  }
}

function assign(node: Node, key: string, value: unknown): void {
  touch(node);
  node.changes ??= new Map();
  node.changes.set(key, value);
}

function noSymbol(key: string | symbol): asserts key is string {
  if (typeof key === "symbol") throw new TypeError("a state has no symbol keys");
}

const shared = {
  defineProperty(target: object, key: string | symbol, descriptor: PropertyDescriptor): boolean {
    if (!("value" in descriptor)) throw new TypeError("a state has no getters and setters");
    return Reflect.set(findProxy(target), key, descriptor.value);
  },
  setPrototypeOf(): boolean {
    throw new TypeError("a state's objects have no prototype to change");
  },
  preventExtensions(): boolean {
    throw new TypeError("a state cannot be frozen");
  },
};

function findProxy(target: object): object {
  return (target instanceof ArrayTarget ? (target[0] as Node) : (target as Node)).proxy;
}

function hasKey(node: Node, key: string | symbol): boolean {
  if (typeof key === "symbol") return false;
  const changed = node.changes?.get(key);
  if (changed !== undefined || node.changes?.has(key)) return changed !== gone;
  return Object.hasOwn(node.base, key);
}

// Missing keys read as undefined, even keys of Object.prototype. Names such as `constructor` come from models, and must
// lead to data or to nothing.
function readKey(node: Node, key: string): unknown {
  if (node.changes?.has(key)) {
    const value = node.changes.get(key);
    return value === gone ? undefined : value;
  }
  if (!Object.hasOwn(node.base, key)) return undefined;
  const value = (node.base as { [key: string]: Json })[key];
  return isContainer(value) ? draftChild(node, key, value) : value;
}

const objectTraps: ProxyHandler<Node> = {
  ...shared,
  get(node, key) {
    if (typeof key === "symbol") return key === behind ? node : undefined;
    return readKey(node, key);
  },
  has: hasKey,
  set(node, key, value) {
    noSymbol(key);
    assign(node, key, value);
    return true;
  },
  deleteProperty(node, key) {
    if (!hasKey(node, key)) return true;
    noSymbol(key);
    if (Object.hasOwn(node.base, key)) {
      assign(node, key, gone);
    } else {
      touch(node);
      node.changes?.delete(key);
    }
    return true;
  },
  ownKeys(node) {
    const kept = Object.keys(node.base);
    if (!node.changes) return kept;
    const keys = kept.filter((key) => node.changes?.get(key) !== gone);
    for (const key of node.changes.keys()) if (!Object.hasOwn(node.base, key)) keys.push(key);
    return keys;
  },
  getOwnPropertyDescriptor(node, key) {
    if (!hasKey(node, key)) return undefined;
    return { value: readKey(node, key as string), writable: true, enumerable: true, configurable: true };
  },
  getPrototypeOf: () => Object.prototype,
};

// Methods that move elements. Other changes (push, pop, index and length assignments) work element by element.
type Mover = "splice" | "shift" | "unshift" | "sort" | "reverse" | "fill" | "copyWithin";
const movers = new Set<unknown>([
  "splice",
  "shift",
  "unshift",
  "sort",
  "reverse",
  "fill",
  "copyWithin",
] satisfies Mover[]);

const arrayTraps: ProxyHandler<Node[]> = {
  ...shared,
  get(target, key) {
    const node = target[0] as Node;
    if (key === "length") return node.length;
    const index = toIndex(key);
    if (index >= 0) return readElement(node, index);
    if (key === behind) return node;
    if (movers.has(key)) return (...args: unknown[]) => move(node, key as Mover, args);
    return key === "constructor" || key === "__proto__" ? undefined : Reflect.get(Array.prototype, key);
  },
  has(target, key) {
    const node = target[0] as Node;
    const index = toIndex(key);
    return index >= 0 ? hasElement(node, index) : key in Array.prototype;
  },
  set(target, key, value) {
    const node = target[0] as Node;
    if (key === "length") {
      setLength(node, Number(value));
      return true;
    }
    const index = toIndex(key);
    if (index < 0) throw new TypeError(`an array of a state has elements only, not "${String(key)}"`);
    setElement(node, index, value);
    return true;
  },
  deleteProperty(target, key) {
    const node = target[0] as Node;
    const index = toIndex(key);
    if (index < 0 || index >= node.length) return true;
    // `pop` deletes the last element before it shortens the array. No element moves, so no copy is needed.
    if (!node.copy && index === node.length - 1) assign(node, String(index), gone);
    else delete elements(node)[index];
    return true;
  },
  ownKeys(target) {
    const node = target[0] as Node;
    const keys: string[] = [];
    for (let index = 0; index < node.length; index++) if (hasElement(node, index)) keys.push(String(index));
    keys.push("length");
    return keys;
  },
  getOwnPropertyDescriptor(target, key) {
    const node = target[0] as Node;
    if (key === "length") return { value: node.length, writable: true, enumerable: false, configurable: false };
    const index = toIndex(key);
    if (index < 0 || !hasElement(node, index)) return undefined;
    return { value: readElement(node, index), writable: true, enumerable: true, configurable: true };
  },
  getPrototypeOf: () => Array.prototype,
};

function toIndex(key: string | symbol): number {
  if (typeof key === "symbol") return -1;
  const index = Number(key);
  return Number.isInteger(index) && index >= 0 && String(index) === key ? index : -1;
}

function hasElement(node: Node, index: number): boolean {
  if (index >= node.length) return false;
  return node.copy ? index in node.copy : node.changes?.get(String(index)) !== gone;
}

function readElement(node: Node, index: number): unknown {
  if (index >= node.length) return undefined;
  if (node.copy) return drafted(node, index);
  const key = String(index);
  if (node.changes?.has(key)) {
    const value = node.changes.get(key);
    return value === gone ? undefined : value;
  }
  const value = (node.base as Json[])[index];
  return isContainer(value) ? draftChild(node, key, value) : value;
}

function setElement(node: Node, index: number, value: unknown): void {
  if (node.copy || index > node.length) {
    elements(node)[index] = value;
    node.length = Math.max(node.length, index + 1);
    if (isContainer(value)) node.fresh?.add(value);
  } else {
    assign(node, String(index), value);
    if (index === node.length) node.length++;
  }
}

function setLength(node: Node, length: number): void {
  if (!Number.isInteger(length) || length < 0 || length >= 2 ** 32) throw new RangeError("Invalid array length");
  if (length === node.length) return;
  if (node.copy || length > node.length) {
    elements(node).length = length;
    node.length = length;
    return;
  }
  touch(node);
  for (const key of node.changes?.keys() ?? []) if (Number(key) >= length) node.changes?.delete(key);
  node.length = length;
}

/**
 * Returns a copy of all current elements, for changes that move them. From then on, the copy is the array, and further
 * changes are made in it.
 */
function elements(node: Node): unknown[] {
  touch(node);
  if (!node.copy) {
    node.fresh = new Set();
    node.copy = (node.base as Json[]).slice(0, node.length);
    for (const [key, child] of node.children ?? []) {
      if (Number(key) < node.length) node.copy[Number(key)] = child.proxy;
    }
    for (const [key, value] of node.changes ?? []) {
      if (value === gone) delete node.copy[Number(key)];
      else node.copy[Number(key)] = value;
      if (isContainer(value)) node.fresh.add(value);
    }
    node.changes = undefined;
  }
  return node.copy;
}

/** Returns an element of a copied array. An object that belongs to the state is returned as a draft. */
function drafted(node: Node, index: number): unknown {
  const copy = node.copy as unknown[];
  return (copy[index] = toDraft(node, copy[index]));
}

function toDraft(node: Node, value: unknown): unknown {
  if (!isContainer(value) || node.fresh?.has(value) || nodeBehind(value)) return value;
  return new Node(value, node, "", node.lock).proxy;
}

function move(node: Node, method: Mover, args: unknown[]): unknown {
  const copy = elements(node);
  for (const value of args) if (isContainer(value)) node.fresh?.add(value);
  // The author's code must see only drafts: `sort` passes elements to its compare function, and the elements that
  // `splice` removes are returned. After `copyWithin`, an element is in two places and must be the same draft in both.
  if (method === "sort" || method === "copyWithin") {
    for (let index = 0; index < copy.length; index++) if (index in copy) drafted(node, index);
  }
  const result: unknown = (copy[method] as (...args: unknown[]) => unknown)(...args);
  node.length = copy.length;
  if (result === copy) return node.proxy;
  return Array.isArray(result) && method === "splice"
    ? result.map((value) => toDraft(node, value))
    : toDraft(node, result);
}

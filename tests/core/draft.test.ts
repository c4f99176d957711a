// Drafts against plain JavaScript: the same code on a draft and on a copy gives the same result, and the delta
// reproduces it.
import { inspect } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyDelta } from "../../src/core/delta.ts";
import { createDraft, readOnly } from "../../src/core/draft.ts";
import { copyJson, type Json } from "../../src/core/json.ts";
import { runs } from "../runs.ts";

type Any = any; // eslint-disable-line typescript/no-explicit-any -- random programs have no types

// A draft keeps the position of a deleted and re-added key; a plain object moves it to the end. Key order is not
// compared.
const keysOf = (value: object): string[] => Object.keys(value).sort();
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, item: unknown) =>
    typeof item === "object" && item !== null && !Array.isArray(item)
      ? keysOf(item).map((name) => [name, (item as Any)[name]])
      : item,
  );

const clone = (value: unknown): Any => copyJson(value, "value");

const key = fc.constantFrom("a", "b", "c", "__proto__", "constructor", "toString", "length", "0", "x/y", "~1", "");
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(
      fc.integer(),
      fc.string(),
      fc.boolean(),
      fc.constant(null),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
    ),
    fc.array(tie("json"), { maxLength: 5 }),
    fc.array(fc.tuple(key, tie("json")), { maxLength: 5 }).map((pairs) => Object.fromEntries(pairs) as Json),
  ),
}));
const object = fc.array(fc.tuple(key, json), { maxLength: 5 }).map((pairs) => Object.fromEntries(pairs) as Json);

/** One statement: follow the numbers down to an object or array, then change it once. */
const statement = fc.record({
  path: fc.array(fc.nat(6), { maxLength: 4 }),
  action: fc.nat(15),
  key,
  value: json,
  number: fc.nat(6),
  from: fc.array(fc.nat(6), { maxLength: 4 }),
});

function follow(root: Any, path: number[]): Any {
  let at = root;
  for (const step of path) {
    const children = keysOf(at).filter((name) => typeof at[name] === "object" && at[name] !== null);
    if (children.length === 0) break;
    at = at[children[step % children.length] as string];
  }
  return at;
}

function holds(outer: Any, inner: Any): boolean {
  if (outer === inner) return true;
  if (typeof outer !== "object" || outer === null) return false;
  return keysOf(outer).some((name) => holds(outer[name], inner));
}

function execute(root: Any, { path, action, key, value, number, from }: Any): unknown {
  const at = follow(root, path);
  const index = Array.isArray(at) ? (at.length === 0 ? 0 : number % at.length) : 0;
  if (!Array.isArray(at)) {
    const keys = keysOf(at);
    const existing = keys[number % Math.max(1, keys.length)] ?? key;
    const define = (name: string, item: unknown): void => {
      if (name === "__proto__") {
        Object.defineProperty(at, name, { value: item, writable: true, enumerable: true, configurable: true });
      } else at[name] = item;
    };
    if (action < 5) return define(key, clone(value));
    if (action < 8) return define(existing, clone(value));
    if (action < 11) return delete at[existing];
    if (action < 13) {
      // The object itself, which is then in two places. Not an ancestor of this one: a cycle is not JSON.
      const other = follow(root, from);
      return holds(other, at) ? undefined : define(key, other);
    }
    if (action === 13) return Object.entries(at).sort(([a], [b]) => (a < b ? -1 : 1));
    if (action === 14) return { ...at };
    return JSON.parse(JSON.stringify(at));
  }
  switch (action) {
    case 0:
    case 1:
      return at.push(clone(value));
    case 2:
      return at.pop();
    case 3:
      return at.shift();
    case 4:
      return at.unshift(clone(value), number);
    case 5:
      return at.splice(index, number % 3, ...(Array.isArray(value) ? (clone(value) as Json[]) : []));
    case 6:
      return at.reverse();
    case 7:
      return at.sort((a, b) => (canonical(a) < canonical(b) ? -1 : 1));
    case 8:
      if (at.length > 0) at[index] = clone(value);
      return undefined;
    case 9:
      at.length = Math.min(at.length, number);
      return undefined;
    case 10: {
      const other = follow(root, from);
      at[at.length] = holds(other, at) ? number : other;
      return undefined;
    }
    case 11:
      return at.map((item) => item);
    case 12:
      return at.filter((_, place) => place % 2 === 0);
    case 13:
      if (at.length > 1) [at[0], at[index]] = [at[index], at[0]];
      return undefined;
    case 14:
      return at.fill(number, index);
    default:
      return [
        at.indexOf(number),
        at.includes(number),
        at.length,
        at.concat([1]),
        at.slice(1),
        [...at],
        JSON.parse(JSON.stringify(at)),
      ];
  }
}

test("any program reads and leaves the same on a draft as on a plain object, and its delta reproduces it", () => {
  fc.assert(
    fc.property(object, fc.array(statement, { maxLength: 15 }), (start, program) => {
      const state = clone(start);
      const model = clone(start);
      const draft = createDraft<Any>(state);
      for (const line of program) {
        const expected = execute(model, line);
        const actual = execute(draft.state, line);
        expect(clone(actual ?? null)).toEqual(clone(expected ?? null));
        expect(clone(draft.state)).toEqual(clone(model));
      }
      expect(state).toEqual(clone(start));
      const delta = clone(draft.delta());
      expect(applyDelta(clone(start), clone(delta))).toEqual(clone(model));
      // Another holder of the state keeps its own copy unchanged.
      const held = clone(start);
      expect(applyDelta(held, delta, new WeakSet())).toEqual(clone(model));
      expect(held).toEqual(clone(start));
    }),
    { numRuns: runs(2000) },
  );
});

test("a draft never writes to the state, and its delta contains the assigned values", () => {
  const state: Json = { count: 1, items: [{ n: 1 }, { n: 2 }], gone: true };
  const draft = createDraft<Any>(state);
  draft.state.count += 2;
  draft.state.items[1].n = 5;
  draft.state.items.push({ n: 3 });
  delete draft.state.gone;
  draft.state.fresh = { deep: [] };
  draft.state.fresh.deep.push(1);
  expect(state).toEqual({ count: 1, items: [{ n: 1 }, { n: 2 }], gone: true });
  expect(draft.delta()).toEqual([
    { op: "replace", path: "/count", value: 3 },
    { op: "remove", path: "/gone" },
    { op: "add", path: "/fresh", value: { deep: [1] } },
    { op: "add", path: "/items/2", value: { n: 3 } },
    { op: "replace", path: "/items/1/n", value: 5 },
  ]);
});

test("an object put into a draft stays its own until the delta is taken, and never after", () => {
  const draft = createDraft<Any>({ list: [] });
  const item = { n: 1 };
  draft.state.list.push(item);
  item.n = 2;
  const delta = draft.delta();
  item.n = 3;
  expect(delta).toEqual([{ op: "add", path: "/list/0", value: { n: 2 } }]);
});

test("a moved object keeps later changes to it", () => {
  const draft = createDraft<Any>({ a: { n: 1 }, list: [{ n: 1 }, { n: 2 }] });
  const moved = draft.state.a;
  draft.state.b = moved;
  delete draft.state.a;
  moved.n = 7;
  const [first] = draft.state.list.splice(0, 1);
  first.n = 9;
  draft.state.list.push(first);
  draft.state.list[0].n = 8;
  expect(applyDelta({ a: { n: 1 }, list: [{ n: 1 }, { n: 2 }] }, draft.delta())).toEqual({
    b: { n: 7 },
    list: [{ n: 8 }, { n: 9 }],
  });
});

test("a value that is not JSON is refused with its path", () => {
  const cyclic: Any = {};
  cyclic.self = cyclic;
  const wrong: [unknown, string][] = [
    [new Date(0), "state/a/x~1y/1 is a Date"],
    [undefined, "state/a/x~1y/1 is undefined"],
    [() => 1, "state/a/x~1y/1 is a function"],
    [Number.NaN, "state/a/x~1y/1 is NaN"],
    [Number.POSITIVE_INFINITY, "state/a/x~1y/1 is Infinity"],
    [1n, "state/a/x~1y/1 is a bigint"],
    [new Map(), "state/a/x~1y/1 is a Map"],
    [Symbol("s"), "state/a/x~1y/1 is a symbol"],
    [Object.create({ inherited: 1 }), "state/a/x~1y/1 is"],
    [{ [Symbol("s")]: 1 }, "state/a/x~1y/1 is"],
    [cyclic, "contains itself"],
    [Array.from({ length: 2 }, () => undefined), "state/a/x~1y/1/0 is undefined"],
  ];
  for (const [value, message] of wrong) {
    const draft = createDraft<Any>({ a: {} });
    draft.state.a["x/y"] = [0, value];
    expect(() => draft.delta()).toThrow(message);
  }
  const holes = createDraft<Any>({ a: [1, 2, 3] });
  delete holes.state.a[1];
  expect(() => holes.delta()).toThrow("state/a/1 is undefined");
  const self = createDraft<Any>({});
  self.state.self = self.state;
  expect(() => self.delta()).toThrow("contains itself");
});

test("keys of Object.prototype are data or missing, and pollute nothing", () => {
  const draft = createDraft<Any>({ table: {} });
  expect(draft.state.__proto__).toBeUndefined();
  expect(draft.state.constructor).toBeUndefined();
  expect("toString" in draft.state).toBe(false);
  draft.state["__proto__"] = { polluted: 1 };
  draft.state.table["constructor"] = { prototype: { polluted: 1 } };
  const state = applyDelta({ table: {} }, draft.delta()) as Any;
  expect(({} as Any).polluted).toBeUndefined();
  expect(JSON.stringify(state)).toBe(
    '{"table":{"constructor":{"prototype":{"polluted":1}}},"__proto__":{"polluted":1}}',
  );
  expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
  const again = createDraft<Any>(state);
  again.state.__proto__.polluted = 2;
  delete again.state.table.constructor;
  expect(JSON.stringify(applyDelta(state, again.delta()))).toBe('{"table":{},"__proto__":{"polluted":2}}');
  expect(JSON.stringify(applyDelta(clone(state), [{ op: "add", path: "/__proto__/x", value: 1 }], new WeakSet()))).toBe(
    '{"table":{},"__proto__":{"polluted":2,"x":1}}',
  );
  expect(({} as Any).x).toBeUndefined();
});

test("a read-only state refuses every write", () => {
  const base: Json = { n: 1, list: [{ n: 1 }, 2], deep: { a: {} } };
  const state = readOnly<Any>(base);
  const writes = [
    () => (state.n = 2),
    () => delete state.n,
    () => state.list.push(1),
    () => state.list.sort(),
    () => state.list.splice(0, 1),
    () => (state.list.length = 0),
    () => (state.list[0].n = 5),
    () => delete state.list[0],
    () => Object.assign(state.deep.a, { b: 1 }),
    () => Object.defineProperty(state, "x", { value: 1 }),
    () => Object.setPrototypeOf(state, null),
    () => Object.freeze(state.deep),
  ];
  for (const write of writes) expect(write).toThrow(TypeError);
  expect(base).toEqual({ n: 1, list: [{ n: 1 }, 2], deep: { a: {} } });
});

test("a draft prints its content", () => {
  const draft = createDraft<Any>({ n: 1, list: [{ a: 1 }] });
  draft.state.list.push(2);
  expect(inspect(draft.state)).toBe("{ n: 1, list: [ { a: 1 }, 2 ] }");
  expect(inspect({ list: draft.state.list })).toBe("{ list: [ { a: 1 }, 2 ] }");
});

test("emptying a long array is one operation", () => {
  const long = { list: Array.from({ length: 10_000 }, (_, n) => n) };
  const cleared = createDraft<Any>(long);
  cleared.state.list.length = 0;
  expect(cleared.delta()).toEqual([{ op: "replace", path: "/list", value: [] }]);
  const spliced = createDraft<Any>(long);
  spliced.state.list.splice(1);
  expect(spliced.delta()).toEqual([{ op: "replace", path: "/list", value: [0] }]);
  const shifted = createDraft<Any>(long);
  shifted.state.list.shift();
  expect(shifted.delta()).toEqual([{ op: "remove", path: "/list/0" }]);
});

test("an object put back in its place is unchanged, whatever was there in between", () => {
  const base: Json = { a: { v: 1 }, list: [{ v: 1 }] };
  const saved = readOnly<Any>(base).a;
  const draft = createDraft<Any>(base);
  draft.state.a.v = 5;
  draft.state.a = saved;
  expect(applyDelta(clone(base), draft.delta())).toEqual(base);
});

test("an index far beyond the end of an array is refused at once", () => {
  const draft = createDraft<Any>({ a: [] });
  draft.state.a[4_000_000_000] = 1;
  expect(() => draft.delta()).toThrow("state/a/0 is undefined");
  const fresh = createDraft<Any>({});
  fresh.state.a = [];
  fresh.state.a[4_000_000_000] = 1;
  expect(() => fresh.delta()).toThrow("state/a/0 is undefined");
});

test("a state cannot grow deeper than the readable depth, not even step by step", () => {
  let state: Json = { next: {} };
  const deepen = (): void => {
    const draft = createDraft<Any>(state);
    let last = draft.state;
    while (Object.keys(last).length > 0) last = last.next;
    last.next = {};
    state = applyDelta(state, draft.delta());
    copyJson(state, "state");
  };
  expect(() => {
    for (let n = 0; n < 600; n++) deepen();
  }).toThrow("nested deeper than 500 levels");
  expect(copyJson(state, "state")).toEqual(state);
});

test("an array length must be valid", () => {
  const draft = createDraft<Any>({ a: [1, 2] });
  for (const length of [-1, 1.5, Number.NaN, 2 ** 32]) {
    expect(() => (draft.state.a.length = length)).toThrow(RangeError);
  }
  expect(draft.delta()).toEqual([]);
});

test("removing the last element touches no other", () => {
  const long = { list: Array.from({ length: 1000 }, (_, n) => ({ n })) };
  const touched = new Set<unknown>();
  const watched = new Proxy(long.list, {
    get: (target, key) => {
      touched.add(key);
      return Reflect.get(target, key) as unknown;
    },
  });
  const draft = createDraft<Any>({ list: watched });
  expect(draft.state.list.pop().n).toBe(999);
  expect(draft.state.list.length).toBe(999);
  draft.state.list.push(1);
  expect(draft.delta()).toEqual([{ op: "replace", path: "/list/999", value: 1 }]);
  expect([...touched].filter((key) => key !== "length" && key !== "999")).toEqual([]);
});

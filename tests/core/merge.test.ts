// Merging against a model: two writers change one value, and no array element changes that neither writer changed.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { changed, type Delta } from "../../src/core/delta.ts";
import { createDraft } from "../../src/core/draft.ts";
import { equalJson, escapeKey, type Json } from "../../src/core/json.ts";
import { merge } from "../../src/core/merge.ts";
import { runs } from "../runs.ts";

type Any = any; // eslint-disable-line typescript/no-explicit-any -- states of tests have no types

function deltaOf(base: Json, write: (state: Any) => unknown): Delta {
  const draft = createDraft<Any>(base);
  write(draft.state);
  return draft.delta();
}

/** Both writers see `base`; `first` commits before `second`. */
function both(base: Json, first: (state: Any) => unknown, second: (state: Any) => unknown) {
  const now = changed(base, deltaOf(base, first));
  const { delta, ...told } = merge(deltaOf(base, second), base, now);
  return { state: changed(now, delta), ...told };
}

const nothing = { overwrote: [], refused: [] };

describe("a change made to an older state", () => {
  test("stays unchanged if the state did not change", () => {
    const base = { list: [1, 2] };
    const delta = deltaOf(base, (state) => state.list.shift());
    expect(merge(delta, base, base)).toEqual({ delta, ...nothing });
    expect(merge(delta, base, structuredClone(base))).toEqual({ delta, ...nothing });
  });

  test("merges with changes of other keys, at any depth of plain objects", () => {
    const base = { a: { x: 1, deep: { one: 1 } }, gone: 1 };
    const merged = both(
      base,
      (state) => ((state.a.y = 2), (state.a.deep.two = 2), (state.b = 1)),
      (state) => (delete state.gone, (state.a.x = 9), (state.a.deep.three = 3), (state.c = 1)),
    );
    const state = { a: { x: 9, y: 2, deep: { one: 1, two: 2, three: 3 } }, b: 1, c: 1 };
    expect(merged).toEqual({ state, ...nothing });
  });

  test("replaces a value that it assigned or removed, and reports it", () => {
    const count = (state: Any) => (state.n = (state.n ?? 0) + 1);
    expect(both({}, count, count)).toEqual({ state: { n: 1 }, overwrote: ["/n"], refused: [] });
    const base = { "a/b": { list: [1] }, gone: 1 };
    const merged = both(
      base,
      (state) => (state["a/b"].list.push(2), (state.gone = 2)),
      (state) => ((state["a/b"].list = []), delete state.gone),
    );
    expect(merged).toEqual({ state: { "a/b": { list: [] } }, overwrote: ["/gone", "/a~1b/list"], refused: [] });
  });

  test("sets an assigned value even if it was removed, and removes nothing twice", () => {
    const remove = (state: Any) => delete state.a;
    expect(both({ a: 1 }, remove, remove)).toEqual({ state: {}, ...nothing });
    expect(both({ a: 1 }, remove, (state) => (state.a = 2))).toEqual({
      state: { a: 2 },
      overwrote: ["/a"],
      refused: [],
    });
  });

  test("appends to an array after any other change of it", () => {
    const add = (state: Any) => state.list.push("c", "d");
    const base = { list: ["a", "b"] };
    expect(both(base, (state) => state.list.push("x"), add).state).toEqual({ list: ["a", "b", "x", "c", "d"] });
    expect(both(base, (state) => state.list.shift(), add).state).toEqual({ list: ["b", "c", "d"] });
    expect(both(base, (state) => (state.list.length = 0), add)).toEqual({ state: { list: ["c", "d"] }, ...nothing });
  });

  test("is dropped if the container it changes is gone or replaced", () => {
    const write = (state: Any) => (state.a.b.c = 1);
    const base = { a: { b: {} } };
    expect(both(base, (state) => delete state.a, write)).toEqual({ state: {}, overwrote: [], refused: ["/a"] });
    expect(both(base, (state) => (state.a.b = [1]), write)).toEqual({
      state: { a: { b: [1] } },
      overwrote: [],
      refused: ["/a/b"],
    });
    expect(
      both(
        { list: [1] },
        (state) => (state.list = {}),
        (state) => state.list.push(2),
      ).refused,
    ).toEqual(["/list"]);
  });

  test("of the whole state replaces the state", () => {
    const delta: Delta = [{ op: "replace", path: "", value: { b: 1 } }];
    const merged = merge(delta, { a: 1 }, { a: 2 });
    expect(merged).toEqual({ delta, overwrote: [""], refused: [] });
  });
});

describe("an array element is never found by its index in another array", () => {
  const [x, y, z] = [{ id: "x" }, { id: "y" }, { id: "z" }];
  const accounts = [{ money: 100 }, { money: 100 }, { money: 500 }];
  const cases: [string, Json, (list: Any) => unknown, (list: Any) => unknown][] = [
    ["one removes the first, the other marks the second", [x, y, z], (l) => l.shift(), (l) => (l[1].done = true)],
    ["both take the first of a queue", ["1", "2", "3"], (l) => l.shift(), (l) => l.shift()],
    ["both take the first of two", ["1", "2"], (l) => l.shift(), (l) => l.shift()],
    [
      "one puts something first, the other removes the second",
      ["x", "y", "z"],
      (l) => l.unshift("w"),
      (l) => l.splice(1, 1),
    ],
    ["one removes an account, the other pays from the next", accounts, (l) => l.shift(), (l) => (l[1].money -= 10)],
    ["one adds, the other empties", [1, 2, 3], (l) => l.push(4), (l) => (l.length = 0)],
    ["one adds, the other keeps one of many", [1, 2, 3, 4], (l) => l.push(5), (l) => l.splice(1)],
    ["one adds, the other sorts", [3, 1, 2], (l) => l.push(0), (l) => l.sort()],
    ["one takes the last, the other changes it", [1, 2], (l) => l.pop(), (l) => (l[1] = 9)],
    ["both put something in", [1, 2], (l) => l.splice(1, 0, 8), (l) => l.splice(1, 0, 9)],
  ];
  test.each(cases)("%s", (_, list, first, second) => {
    const base = { list };
    const now = changed(
      base,
      deltaOf(base, (state) => first(state.list)),
    );
    const merged = both(
      base,
      (state) => first(state.list),
      (state) => ((state.other = 1), second(state.list)),
    );
    expect(merged).toEqual({ state: { ...(now as object), other: 1 }, overwrote: [], refused: ["/list"] });
  });
});

const key = fc.constantFrom("a", "b", "list", "x/y", "constructor", "0");
const leaf = fc.oneof(fc.nat(3), fc.constantFrom("s", null, true));
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    leaf,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie("value")), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs) as Json),
  ),
}));
const state = fc.array(fc.tuple(key, value), { minLength: 1, maxLength: 5 }).map((all) => Object.fromEntries(all));
const edit = fc.record({ path: fc.array(fc.nat(5), { maxLength: 3 }), action: fc.nat(11), key, value, at: fc.nat(4) });
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

/** Changes one object or array. Returns the pointers that it assigned or removed as a whole. */
function apply(root: Any, { path, action, key: name, value: given, at }: Edit): string | undefined {
  let [target, pointer, isInArray] = [root, "", false];
  for (const step of path) {
    const keys = Object.keys(target).filter((one) => typeof target[one] === "object" && target[one] !== null);
    if (keys.length === 0) break;
    const next = keys[step % keys.length] as string;
    isInArray ||= Array.isArray(target);
    pointer += `/${escapeKey(next)}`;
    target = target[next];
  }
  if (!Array.isArray(target)) {
    if (action < 8) target[name] = structuredClone(given);
    else delete target[name];
    return isInArray ? undefined : `${pointer}/${escapeKey(name)}`;
  }
  const index = target.length === 0 ? 0 : at % target.length;
  if (action < 4) target.push(structuredClone(given));
  else if (action === 4) target.pop();
  else if (action === 5) target.shift();
  else if (action === 6) target.unshift(structuredClone(given));
  else if (action === 7) target.splice(index, at, structuredClone(given));
  else if (action === 8) target.reverse();
  else if (action === 9) target.length = Math.min(target.length, at);
  else if (action === 10 && target.length > 0) target[index] = structuredClone(given);
  else target.splice(index, 1);
  return undefined;
}

const isObject = (json: Json | undefined): json is { [key: string]: Json } =>
  typeof json === "object" && json !== null && !Array.isArray(json);
const child = (json: { [key: string]: Json }, name: string) => (Object.hasOwn(json, name) ? json[name] : undefined);

interface Seen {
  base: Json | undefined;
  first: Json | undefined;
  second: Json | undefined;
  result: Json | undefined;
}

/** Checks the result of two writers at one place, by the values alone. */
function judge(pointer: string, told: { overwrote: string[]; refused: string[] }, seen: Seen): void {
  const { base, first, second, result } = seen;
  const is = (wanted: Json | undefined): boolean => equalJson(result, wanted);
  const where = `${pointer}: ${JSON.stringify(seen)}`;
  if (told.overwrote.includes(pointer)) return expect(is(second), where).toBe(true);
  if (told.refused.includes(pointer)) return expect(is(first), where).toBe(true);
  if (equalJson(base, first)) return expect(is(second), where).toBe(true);
  if (isObject(base) && isObject(first) && isObject(second) && isObject(result)) {
    const names = new Set([base, first, second, result].flatMap((one) => Object.keys(one)));
    for (const name of names) {
      const below = Object.fromEntries(
        Object.entries({ base, first, second, result }).map(([which, one]) => [which, child(one, name)]),
      );
      judge(`${pointer}/${escapeKey(name)}`, told, below as unknown as Seen);
    }
    return;
  }
  if (equalJson(base, second)) return expect(is(first), where).toBe(true);
  // Both removed it, or the second only appended.
  if (second === undefined) return expect(result, where).toBe(undefined);
  expect([base, first, second].every(Array.isArray), where).toBe(true);
  const [old, now, added] = [base, first, second] as [Json[], Json[], Json[]];
  expect(equalJson(added.slice(0, old.length), old), where).toBe(true);
  expect(is([...now, ...added.slice(old.length)]), where).toBe(true);
}

test("SERIAL: after random changes by two writers each place has the value of one of them, or of both", () => {
  const counts = { merged: 0, overwrote: 0, refused: 0 };
  fc.assert(
    fc.property(
      state,
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      (base, one, two) => {
        const first = changed(
          base,
          deltaOf(base, (draft) => one.forEach((each) => apply(draft, each))),
        );
        const assigned = new Set<string | undefined>();
        const delta = deltaOf(base, (draft) => two.forEach((each) => assigned.add(apply(draft, each))));
        const second = changed(base, delta);
        const before = structuredClone([base, first, delta]);
        const { delta: placed, ...told } = merge(delta, base, first);
        const result = changed(first, placed);
        expect([base, first, delta]).toEqual(before);
        // Only an assignment replaces a value; changing elements of an array does not assign the array.
        for (const pointer of told.overwrote) expect(assigned).toContain(pointer);
        judge("", told, { base, first, second, result });
        counts.merged += told.overwrote.length + told.refused.length === 0 ? 1 : 0;
        counts.overwrote += told.overwrote.length;
        counts.refused += told.refused.length;
      },
    ),
    { numRuns: runs(5000) },
  );
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(runs(5000) / 50);
});

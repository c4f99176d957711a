// The state at every version of a log, and what changed from one to the next.
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyDelta, type Operation } from "../../src/core/delta.ts";
import type { NumberedEvent } from "../../src/core/event.ts";
import { equalJson, escapeKey, unescapeKey, type Json } from "../../src/core/json.ts";
import { changesOf, marksOf } from "../../viewer/src/pages/episode/changes.ts";
import { createHistory } from "../../viewer/src/pages/episode/history.ts";
import { runs } from "../runs.ts";

const key = fc.constantFrom("a", "b", "__proto__", "length", "0", "x/y", "~1", "");
const { json } = fc.letrec<{ json: Json }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 3 },
    fc.oneof(fc.integer(), fc.string(), fc.boolean(), fc.constant(null)),
    fc.array(tie("json"), { maxLength: 4 }),
    fc.array(fc.tuple(key, tie("json")), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs) as Json),
  ),
}));
const step = fc.record({ way: fc.array(fc.nat(5), { maxLength: 4 }), action: fc.nat(5), key, value: json });

const copy = (value: Json): Json => JSON.parse(JSON.stringify(value)) as Json;

/** An operation that fits the state: the numbers lead down to some object or list of it. */
function operationFor(state: Json, { way, action, key: name, value }: { [field: string]: Json }): Operation {
  let [at, path]: [Json, string] = [state, ""];
  if (typeof at !== "object" || at === null || action === 0) return { op: "replace", path: "", value: value as Json };
  for (const turn of way as number[]) {
    const inside: [string, Json][] = Object.entries(at as object).filter(
      ([, child]) => typeof child === "object" && child !== null,
    );
    const [found, child] = inside[turn % inside.length] ?? [];
    if (found === undefined) break;
    [at, path] = [child as Json, `${path}/${escapeKey(found)}`];
  }
  const keys = Object.keys(at as object);
  const chosen = keys[(way as number[]).length % keys.length];
  if (chosen !== undefined && action === 1) return { op: "remove", path: `${path}/${escapeKey(chosen)}` };
  if (chosen !== undefined && action === 2) {
    return { op: "replace", path: `${path}/${escapeKey(chosen)}`, value: value as Json };
  }
  const place = Array.isArray(at) ? (keys.length > 1 && action === 3 ? "1" : "-") : escapeKey(String(name));
  return { op: "add", path: `${path}/${place}`, value: value as Json };
}

/** A log that fits, with the state after each of its events, each a copy of its own. */
function logOf(steps: { [field: string]: Json }[][]): { events: NumberedEvent[]; states: Json[] } {
  const states: Json[] = [null];
  const events = steps.map((some, at): NumberedEvent => {
    const delta: Operation[] = [];
    let state = copy(states.at(-1) as Json);
    for (const one of some) {
      const operation = operationFor(state, one);
      delta.push(copy(operation as unknown as Json) as unknown as Operation);
      state = applyDelta(state, [copy(operation as unknown as Json) as unknown as Operation]);
    }
    states.push(copy(state));
    return { type: "shared.changed", session: "s", at, version: at + 1, ...(delta.length > 0 && { delta }) };
  });
  return { events, states };
}

test("the state at any version is that of folding the log from its start, in whatever order versions are asked for", () => {
  const log = fc.array(fc.array(step, { maxLength: 3 }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(log, fc.array(fc.nat(39), { maxLength: 30 }), fc.nat(40), (steps, visits, cut) => {
      const { events, states } = logOf(steps as unknown as { [field: string]: Json }[][]);
      const history = createHistory();
      history.append(events.slice(0, cut));
      for (const visit of visits) history.stateAt(visit);
      history.append(events.slice(cut));
      for (const visit of [...visits, ...states.keys()]) {
        const version = visit % states.length;
        expect(equalJson(history.stateAt(version), states[version])).toBe(true);
      }
    }),
    { numRuns: runs(200) },
  );
});

test("a long log is folded across what is kept, and its states share what did not change", () => {
  const opened: NumberedEvent = {
    type: "shared.changed",
    session: "s",
    at: 0,
    version: 1,
    delta: [{ op: "replace", path: "", value: { large: { text: "x" }, count: 0 } }],
  };
  const rest = Array.from({ length: 1999 }, (_, at): NumberedEvent => ({
    type: "shared.changed",
    session: "s",
    at,
    version: at + 2,
    delta: [{ op: "replace", path: "/count", value: at + 1 }],
  }));
  const history = createHistory();
  history.append([opened, ...rest]);
  const [last, early] = [history.stateAt(2000), history.stateAt(3)] as { large: object; count: number }[];
  expect([last?.count, early?.count]).toEqual([1999, 2]);
  expect(last?.large).toBe(early?.large);
  for (let version = 2; version <= 2000; version += 127) {
    expect(history.stateAt(version)).toMatchObject({ count: version - 1 });
  }
  expect(history.stateAt(256)).toMatchObject({ count: 255 });
  expect(history.stateAt(1)).toEqual({ large: { text: "x" }, count: 0 });
});

test("what an agent shares is beside the state, as far as the log says it", () => {
  const base = { type: "agent.began", agent: "a", path: "a", invocation: "i", at: 0 } as const;
  const history = createHistory();
  history.append([
    { ...base, version: 1, delta: [{ op: "replace", path: "", value: { here: 1 } }] },
    { ...base, version: 2, shared: [{ op: "replace", path: "/user:name", value: "Ada" }] },
    { ...base, version: 3, shared: [{ op: "add", path: "/app:unknown/below", value: 1 }] },
    { ...base, version: 4, shared: [{ op: "remove", path: "/user:name" }] },
  ]);
  expect(history.stateAt(1)).toEqual({ here: 1 });
  expect(history.stateAt(3)).toEqual({ here: 1, "user:name": "Ada" });
  expect(history.stateAt(4)).toEqual({ here: 1 });
});

function valueAt(state: Json, path: string): Json | undefined {
  let at: Json | undefined = state;
  for (const part of path.split("/").slice(1)) {
    const name = unescapeKey(part);
    at = Object.hasOwn(Object(at) as object, name) ? (at as { [key: string]: Json })[name] : undefined;
  }
  return at;
}

test("there are changes just where two states differ, and each says what was there and what is there", () => {
  fc.assert(
    fc.property(json, fc.array(step, { maxLength: 4 }), (from, steps) => {
      let to = copy(from);
      const delta: Operation[] = [];
      for (const one of steps) {
        const operation = operationFor(to, one as unknown as { [field: string]: Json });
        delta.push(operation);
        to = applyDelta(to, [copy(operation as unknown as Json) as unknown as Operation]);
      }
      const { changes } = changesOf(from, to, delta);
      expect(changes.length === 0).toBe(equalJson(from, to));
      for (const { kind, path, before, after } of changes) {
        if (kind !== "added") expect(equalJson(valueAt(from, path), before)).toBe(true);
        if (kind !== "removed") expect(equalJson(valueAt(to, path), after)).toBe(true);
      }
    }),
    { numRuns: runs(1000) },
  );
});

test("what is put into the middle of a list, or taken out of it, is one change", () => {
  const list = [{ id: 1 }, { id: 2 }, { id: 3 }];
  const more = [{ id: 1 }, { id: 9 }, { id: 2 }, { id: 3 }];
  expect(changesOf({ list }, { list: more }, [{ op: "add", path: "/list/1", value: { id: 9 } }]).changes).toEqual([
    { kind: "added", path: "/list/1", after: { id: 9 } },
  ]);
  const fewer = [{ id: 2 }, { id: 3 }];
  expect(changesOf({ list }, { list: fewer }, [{ op: "remove", path: "/list/0" }]).changes).toEqual([
    { kind: "removed", path: "/list/0", before: { id: 1 } },
  ]);
});

test("no more changes are listed than anybody reads, and that is said", () => {
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`k${at}`, at]));
  const { changes, isCut } = changesOf({}, many, [{ op: "replace", path: "", value: many }]);
  expect([changes.length, isCut]).toEqual([1000, true]);
});

test("the marks of a tree are the changed paths and all that is above them", () => {
  const { kinds, touched } = marksOf([
    { kind: "added", path: "/a/b~1c/0", after: 1 },
    { kind: "removed", path: "/x/y", before: 1 },
  ]);
  expect([...kinds]).toEqual([["/a/b~1c/0", "added"]]);
  expect([...touched].sort()).toEqual(["", "/a", "/a/b~1c", "/x"]);
});

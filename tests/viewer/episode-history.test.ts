// The state at every version of a log, and the changes from one version to the next.
import fc from "fast-check";
import { expect, test } from "vitest";
import { applyDelta, type Operation } from "../../src/core/delta.ts";
import type { NumberedEvent } from "../../src/core/event.ts";
import { equalJson, escapeKey, unescapeKey, type Json } from "../../src/core/json.ts";
import { findChanges, toMarks } from "../../viewer/src/pages/episode/changes.ts";
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

/** An operation that is valid for the state: the numbers lead down to an object or list in it. */
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

/** A valid log, with a separate copy of the state after each event. */
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

test("the state at any version equals a fold of the log from its start, in any order of access", () => {
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

test("a long log is folded across kept states, and its states share unchanged parts", () => {
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

test("shared state of an agent appears beside the session's state, as far as the log contains it", () => {
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

test("changes exist exactly where two states differ, each with its values before and after", () => {
  fc.assert(
    fc.property(json, fc.array(step, { maxLength: 4 }), (from, steps) => {
      let to = copy(from);
      const delta: Operation[] = [];
      for (const one of steps) {
        const operation = operationFor(to, one as unknown as { [field: string]: Json });
        delta.push(operation);
        to = applyDelta(to, [copy(operation as unknown as Json) as unknown as Operation]);
      }
      const { changes } = findChanges(from, to, delta);
      expect(changes.length === 0).toBe(equalJson(from, to));
      for (const { kind, path, before, after } of changes) {
        if (kind !== "added") expect(equalJson(valueAt(from, path), before)).toBe(true);
        if (kind !== "removed") expect(equalJson(valueAt(to, path), after)).toBe(true);
      }
    }),
    { numRuns: runs(1000) },
  );
});

test("an insertion or removal in the middle of a list is one change", () => {
  const list = [{ id: 1 }, { id: 2 }, { id: 3 }];
  const more = [{ id: 1 }, { id: 9 }, { id: 2 }, { id: 3 }];
  expect(findChanges({ list }, { list: more }, [{ op: "add", path: "/list/1", value: { id: 9 } }]).changes).toEqual([
    { kind: "added", path: "/list/1", after: { id: 9 } },
  ]);
  const fewer = [{ id: 2 }, { id: 3 }];
  expect(findChanges({ list }, { list: fewer }, [{ op: "remove", path: "/list/0" }]).changes).toEqual([
    { kind: "removed", path: "/list/0", before: { id: 1 } },
  ]);
});

test("the list of changes is limited and says so", () => {
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`k${at}`, at]));
  const { changes, isCut } = findChanges({}, many, [{ op: "replace", path: "", value: many }]);
  expect([changes.length, isCut]).toEqual([1000, true]);
});

test("the marks of a tree are the changed paths and all their parents", () => {
  const { kinds, touched } = toMarks([
    { kind: "added", path: "/a/b~1c/0", after: 1 },
    { kind: "removed", path: "/x/y", before: 1 },
  ]);
  expect([...kinds]).toEqual([["/a/b~1c/0", "added"]]);
  expect([...touched].sort()).toEqual(["", "/a", "/a/b~1c", "/x"]);
});

test("shared keys that other conversations wrote are part of the state at every version", () => {
  const history = createHistory();
  const opened = { type: "session.opened", delta: [{ op: "replace", path: "", value: { turns: 0 } }] };
  const wrote = { type: "agent.ended", shared: [{ op: "add", path: "/user:name", value: "Ann" }] };
  history.append([opened, wrote].map((event, at) => ({ ...event, version: at + 1 }) as unknown as NumberedEvent));
  const known = { "user:name": "Ann", "app:company": "Acme" };
  expect(history.stateAt(1, known)).toEqual({ turns: 0, "app:company": "Acme" });
  expect(history.stateAt(2, known)).toEqual({ turns: 0, "user:name": "Ann", "app:company": "Acme" });
  expect(history.stateAt(2)).toEqual({ turns: 0, "user:name": "Ann" });
});

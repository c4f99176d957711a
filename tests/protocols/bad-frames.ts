// Bad requests of every wire from fast-check: wrong types in every field, foreign and forged ids, and invalid JSON.
import fc from "fast-check";

/** Names of fields that some wire reads. */
const names = [
  ...`type data action tool_name arguments metadata request_id timeout_s seed episode_id split index task_id task_spec
  env_name name input start stop response output _ng_step_request_id responses_create_params initial_count
  expected_count jsonrpc id method params session_id model messages role content stream previous_response_id
  conversation tools message messageId parts text contextId appName userId sessionId newMessage state stateDelta
  streaming call_id __proto__ constructor toString`.split(/\s+/),
  "",
];

/** Values that some wire expects somewhere. */
const words = [
  ...`reset step state mcp close call_tool list_tools submit increment_counter crash helper tools/call tools/list
  openenv/session/create openenv/session/close 2.0 user assistant train SendMessage message/send GetTask CancelTask
  function_call message ROLE_USER`.split(/\s+/),
  "\u0000",
  "\ud800",
];

const leaf = fc.oneof(
  fc.constantFrom<unknown>(...words, null, true, false, 0, -1, 1, 1e308, -0, 2 ** 53, 0.5, "OWN", "OTHER", "FORGED"),
  fc.string({ maxLength: 12 }),
);

const value: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    leaf,
    fc.array(tie("any"), { maxLength: 3 }),
    fc.array(fc.tuple(fc.constantFrom(...names), tie("any")), { maxLength: 5 }).map(objectOf),
  ),
})).any;

/** An object with own fields, `__proto__` too. */
function objectOf(pairs: [string, unknown][]): unknown {
  return JSON.parse(
    `{${pairs.map(([name, each]) => `${JSON.stringify(name)}:${JSON.stringify(each ?? null)}`).join(",")}}`,
  );
}

/** A valid body in which some fields are replaced, added or missing. */
export function spoiled(valid: object): fc.Arbitrary<string> {
  const text = JSON.stringify(valid);
  const broken = fc.oneof(
    fc.nat(text.length).map((at) => text.slice(0, at)),
    fc
      .tuple(fc.nat(text.length), fc.string({ maxLength: 4 }))
      .map(([at, more]) => text.slice(0, at) + more + text.slice(at)),
    fc.constantFrom(
      "",
      " ",
      "[",
      "{}",
      "[]",
      "null",
      '"x"',
      "1",
      "[[[[[[[[[[]]]]]]]]]]",
      "[".repeat(2_000),
      "\ufeff{}",
    ),
  );
  const paths = pathsIn(valid);
  const replaced = fc
    .array(fc.tuple(fc.constantFrom(...paths), value), { minLength: 1, maxLength: 3 })
    .map((changes) => JSON.stringify(changes.reduce<unknown>((made, [path, to]) => withAt(made, path, to), valid)));
  return fc.oneof(
    { weight: 1, arbitrary: broken },
    { weight: 6, arbitrary: replaced },
    { weight: 1, arbitrary: value.map(toJson) },
  );
}

const toJson = (given: unknown): string => JSON.stringify(given ?? null);

/** The paths to every field and entry, and to a new field of every object. */
function pathsIn(given: unknown): string[][] {
  if (typeof given !== "object" || given === null) return [[]];
  const inner = Object.entries(given).flatMap(([name, each]) => pathsIn(each).map((path) => [name, ...path]));
  return [[], ["extra"], ...inner];
}

function withAt(given: unknown, [first, ...rest]: string[], to: unknown): unknown {
  if (first === undefined) return to;
  if (typeof given !== "object" || given === null) return given;
  if (Array.isArray(given)) return given.map((each, at) => (String(at) === first ? withAt(each, rest, to) : each));
  return { ...given, [first]: withAt((given as Record<string, unknown>)[first], rest, to) };
}

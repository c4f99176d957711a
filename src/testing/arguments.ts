// Invalid arguments for a tool, created from its input's JSON Schema.
import { sample } from "../core/json-sample.ts";
import { readProperties, readRequired, type JsonSchema } from "../core/json-schema.ts";
import type { Json } from "../core/json.ts";

export interface BadInput {
  /** A description of the fault. */
  what: string;
  input: Json;
}

/** Returns invalid arguments, and valid arguments that break careless code. */
export function badInputs(schema: JsonSchema): BadInput[] {
  const good = sample(schema);
  const fields = typeof good === "object" && good !== null && !Array.isArray(good) ? good : {};
  const bad: BadInput[] = [
    { what: "null instead of an object", input: null },
    { what: "a number instead of an object", input: 3 },
    { what: "a string instead of an object", input: "x" },
    { what: "a list instead of an object", input: [] },
    { what: "an unknown field", input: { ...fields, unknown_field: 1 } },
    // Parsed from JSON, as a client's input is: a literal would set the object's prototype instead of a field.
    { what: "a field called __proto__", input: JSON.parse('{"__proto__":{"polluted":true}}') as Json },
    { what: "lists nested 200 levels deep", input: { deep: nested(200) } },
  ];
  for (const name of readRequired(schema)) {
    const { [name]: _, ...rest } = fields;
    bad.push({ what: `the field ${name} missing`, input: rest });
  }
  const names = Object.keys(readProperties(schema));
  const all = Object(sample({ ...schema, required: names })) as { [name: string]: Json };
  for (const name of names) {
    for (const [kind, value] of wrongValues) {
      if (typeof value === typeof all[name] && kind !== "a huge number") continue;
      bad.push({ what: `${kind} for ${name}`, input: { ...fields, [name]: value } });
    }
  }
  return bad;
}

const wrongValues: [string, Json][] = [
  ["null", null],
  ["a string", "a wrong value"],
  ["a number", 0.5],
  ["a huge number", 1e308],
  ["true", true],
  ["a list", [[]]],
  ["an object", { a: { b: {} } }],
];

function nested(depth: number): Json {
  let value: Json = [];
  for (let n = 1; n < depth; n++) value = [value];
  return value;
}

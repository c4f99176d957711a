// Invalid arguments for a tool, created from its input's JSON Schema.
import { sample } from "../core/json-sample.ts";
import { readProperties, readRequired, type JsonSchema } from "../core/json-schema.ts";
import type { Json } from "../core/json.ts";

export interface BadInput {
  /** The fault, in words. */
  what: string;
  input: Json;
}

/** Invalid arguments, and valid ones that break careless code. */
export function badInputs(schema: JsonSchema): BadInput[] {
  const good = sample(schema);
  const fields = typeof good === "object" && good !== null && !Array.isArray(good) ? good : {};
  const bad: BadInput[] = [
    { what: "null for an object", input: null },
    { what: "a number for an object", input: 3 },
    { what: "a text for an object", input: "x" },
    { what: "a list for an object", input: [] },
    { what: "a field that nobody asked for", input: { ...fields, unknown_field: 1 } },
    // As a client would send it: as a plain field, not as the object's prototype.
    { what: "a field called __proto__", input: JSON.parse('{"__proto__":{"polluted":true}}') as Json },
    { what: "lists in lists, 200 deep", input: { deep: nested(200) } },
  ];
  for (const name of readRequired(schema)) {
    const { [name]: _, ...rest } = fields;
    bad.push({ what: `${name} left out`, input: rest });
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
  ["a text", "not what it should be"],
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

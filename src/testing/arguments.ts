// Arguments made from a JSON Schema: some that fit it, to try a tool that nobody described further, and many that do not.
import {
  alternativesOf,
  follow,
  isSchema,
  numberOf,
  propertiesOf,
  requiredOf,
  typeOf,
  type JsonSchema,
} from "../core/json-schema.ts";
import type { Json } from "../core/json.ts";

export interface BadInput {
  /** What is wrong with it, in words. */
  what: string;
  input: Json;
}

/** A value that fits the schema, as far as it can be told from its types and bounds; patterns are not looked at. */
export function sampleInput(schema: JsonSchema, root: JsonSchema = schema, depth = 0): Json {
  const followed = follow(schema, root);
  if (depth > 8) return null;
  const [first] = alternativesOf(followed);
  if (first) return sampleInput({ ...followed, anyOf: [], oneOf: [], ...first }, root, depth + 1);
  if (followed["const"] !== undefined) return followed["const"];
  if (followed["default"] !== undefined) return followed["default"];
  const choices = followed["enum"];
  if (Array.isArray(choices)) return choices[0] ?? null;
  switch (typeOf(followed)) {
    case "object": {
      const properties = propertiesOf(followed);
      const required = requiredOf(followed);
      return Object.fromEntries(
        Object.entries(properties)
          .filter(([name]) => required.has(name))
          .map(([name, property]) => [name, sampleInput(property, root, depth + 1)]),
      );
    }
    case "array": {
      const items = followed["items"];
      const count = Math.min(numberOf(followed["minItems"]) ?? 0, 100);
      return Array.from({ length: count }, () => (isSchema(items) ? sampleInput(items, root, depth + 1) : null));
    }
    case "integer":
    case "number":
      return sampleNumber(followed);
    case "boolean":
      return true;
    case "null":
      return null;
    case "string":
      return sampleText(followed);
    default:
      return {};
  }
}

/** Values that do not fit the schema of a tool's arguments, or that tend to break what does not look closely. */
export function badInputs(schema: JsonSchema): BadInput[] {
  const good = sampleInput(schema);
  const fields = typeof good === "object" && good !== null && !Array.isArray(good) ? good : {};
  const bad: BadInput[] = [
    { what: "null for an object", input: null },
    { what: "a number for an object", input: 3 },
    { what: "a text for an object", input: "x" },
    { what: "a list for an object", input: [] },
    { what: "a field that nobody asked for", input: { ...fields, unknown_field: 1 } },
    // As a client would send it: a field of its own, not the object's prototype.
    { what: "a field called __proto__", input: JSON.parse('{"__proto__":{"polluted":true}}') as Json },
    { what: "lists in lists, 200 deep", input: { deep: nested(200) } },
  ];
  for (const name of requiredOf(schema)) {
    const { [name]: _, ...rest } = fields;
    bad.push({ what: `${name} left out`, input: rest });
  }
  for (const [name, property] of Object.entries(propertiesOf(schema))) {
    for (const [kind, value] of wrongValues) {
      if (typeof value === typeof sampleInput(property, schema) && kind !== "a huge number") continue;
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

function sampleNumber(schema: JsonSchema): number {
  const above = numberOf(schema["exclusiveMinimum"]);
  const below = numberOf(schema["exclusiveMaximum"]);
  const least = above === undefined ? (numberOf(schema["minimum"]) ?? 1) : above + 1;
  const most = below === undefined ? (numberOf(schema["maximum"]) ?? Infinity) : below - 1;
  const step = numberOf(schema["multipleOf"]) ?? 1;
  return Math.min(Math.ceil(Math.max(least, Math.min(1, most)) / step) * step, most);
}

const formats: { [format: string]: string } = {
  date: "2026-03-02",
  time: "12:00:00",
  "date-time": "2026-03-02T12:00:00Z",
  email: "someone@example.com",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
  uri: "https://example.com/",
  url: "https://example.com/",
};

function sampleText(schema: JsonSchema): string {
  const known = formats[String(schema["format"])];
  if (known !== undefined) return known;
  const least = Math.min(numberOf(schema["minLength"]) ?? 0, 10_000);
  const most = numberOf(schema["maxLength"]) ?? Infinity;
  return "sample".padEnd(least, "x").slice(0, Math.max(most, 0));
}

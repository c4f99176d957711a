// A task to begin with, from the schema of tasks: what is required, or all where nothing is, with values that say little.
import type { Json } from "../../../../src/core/json.ts";
import {
  alternativesOf,
  follow,
  isSchema,
  numberOf,
  propertiesOf,
  requiredOf,
  typeOf,
  type JsonSchema,
} from "../../../../src/core/json-schema.ts";

/** A schema may contain itself. */
const deepest = 6;

export function sampleOf(schema: Json | undefined): Json {
  return isSchema(schema) ? valueOf(schema, schema, 0) : {};
}

function valueOf(schema: JsonSchema, root: JsonSchema, depth: number): Json {
  const followed = follow(schema, root);
  const { default: given, const: only, examples, enum: choices, minimum } = followed;
  for (const known of [given, only, firstOf(examples), firstOf(choices)]) if (known !== undefined) return known;
  const [alternative] = alternativesOf(followed);
  if (alternative && depth < deepest) return valueOf(alternative, root, depth + 1);
  const least: { [type: string]: Json } = { string: "", boolean: false, array: [], null: null };
  const type = String(typeOf(followed));
  if (type === "integer" || type === "number") return Math.max(0, numberOf(minimum) ?? 0);
  if (type in least) return least[type] as Json;
  if (depth >= deepest) return {};
  const properties = propertiesOf(followed);
  const required = [...requiredOf(followed)];
  const names = required.length > 0 || depth > 0 ? required : Object.keys(properties);
  return Object.fromEntries(names.map((name) => [name, valueOf(properties[name] ?? {}, root, depth + 1)]));
}

const firstOf = (value: Json | undefined): Json | undefined => (Array.isArray(value) ? value[0] : undefined);

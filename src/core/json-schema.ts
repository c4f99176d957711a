// Reading a JSON Schema: its references, alternatives, properties and bounds, for those who make values from one.
import { unescapeKey, type Json } from "./json.ts";

export type JsonSchema = { [keyword: string]: Json };

export const isSchema = (value: Json | undefined): value is JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const numberOf = (value: Json | undefined): number | undefined =>
  typeof value === "number" ? value : undefined;

/** What the schema refers to within its root; the schema itself if it refers to nothing, {} if to nothing that is there. */
export function follow(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let followed = schema;
  // A reference may lead to another. One that leads back to itself says nothing.
  for (let hops = 0; hops < 20; hops++) {
    const { $ref: reference } = followed;
    if (typeof reference !== "string" || !reference.startsWith("#")) return followed;
    const target = lookUp(root, reference);
    if (!isSchema(target)) return {};
    followed = target;
  }
  return {};
}

function lookUp(root: JsonSchema, reference: string): Json | undefined {
  let target: Json | undefined = root;
  for (const step of reference.split("/").slice(1)) {
    const key = unescapeKey(step);
    if (Array.isArray(target)) target = target[Number(key)];
    else target = isSchema(target) && Object.hasOwn(target, key) ? target[key] : undefined;
  }
  return target;
}

/** The members of the first of anyOf, oneOf and allOf that has some. */
export function alternativesOf(schema: JsonSchema): JsonSchema[] {
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const found = schema[key];
    if (Array.isArray(found) && found.length > 0) return found.filter(isSchema);
  }
  return [];
}

/** Its type, or the first of its types. */
export function typeOf(schema: JsonSchema): Json | undefined {
  const { type } = schema;
  if (type === undefined && schema["properties"] !== undefined) return "object";
  return Array.isArray(type) ? type[0] : type;
}

export function propertiesOf(schema: JsonSchema): { [name: string]: JsonSchema } {
  const { properties } = schema;
  return Object.fromEntries(
    Object.entries(isSchema(properties) ? properties : {}).map(([name, property]) => [
      name,
      isSchema(property) ? property : {},
    ]),
  );
}

export function requiredOf(schema: JsonSchema): Set<string> {
  const { required } = schema;
  return new Set(Array.isArray(required) ? required.map(String) : []);
}

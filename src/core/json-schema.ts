// Reads a JSON Schema: its references, alternatives, properties and bounds.
import { equalJson, isObject, setOwn, unescapeKey, type Json } from "./json.ts";

export type JsonSchema = { [keyword: string]: Json };

export const isSchema = (value: Json | undefined): value is JsonSchema => isObject(value);

export const asNumber = (value: Json | undefined): number | undefined =>
  typeof value === "number" ? value : undefined;

/** Resolves a schema's reference within its root; {} if the reference is broken. Without one, returns the schema. */
export function follow(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let followed = schema;
  // A reference may lead to another reference. A circular one puts no limit on the value.
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

export function readProperties(schema: JsonSchema): { [name: string]: JsonSchema } {
  const { properties } = schema;
  return Object.fromEntries(
    Object.entries(isSchema(properties) ? properties : {}).map(([name, property]) => [
      name,
      isSchema(property) ? property : {},
    ]),
  );
}

export function readRequired(schema: JsonSchema): Set<string> {
  const { required } = schema;
  return new Set(Array.isArray(required) ? required.map(String) : []);
}

/** Returns the schemas of a list: `true` becomes {}, and `false` is omitted, because it accepts nothing. */
export const schemasIn = (list: Json | undefined): JsonSchema[] =>
  Array.isArray(list) ? list.flatMap((one) => (one === true ? [{}] : isSchema(one) ? [one] : [])) : [];

/** Compiles a pattern; returns undefined if JavaScript cannot parse it. */
export function compilePattern(pattern: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(pattern, flags);
    } catch {
      // Other dialects escape more characters. JavaScript refuses such escapes only with the flag u.
    }
  }
  return undefined;
}

/** Merges two schemas into one for values that match both. Its `pattern` may be a list, and all must match. */
export function mergeSchemas(a: JsonSchema, b: JsonSchema): JsonSchema {
  const merged: JsonSchema = { ...a };
  for (const [keyword, value] of Object.entries(b)) {
    const other = Object.hasOwn(a, keyword) ? a[keyword] : undefined;
    setOwn(merged, keyword, other === undefined ? value : mergeKeyword(keyword, other, value));
  }
  return merged;
}

function mergeKeyword(keyword: string, a: Json, b: Json): Json {
  if (/^(exclusiveM|m)in/.test(keyword)) return Math.max(Number(a), Number(b));
  if (/^(exclusiveM|m)ax/.test(keyword)) return Math.min(Number(a), Number(b));
  switch (keyword) {
    case "type":
      return [a].flat().flatMap((one) => [b].flat().flatMap((other) => typeInBoth(one, other)));
    case "enum":
      return [a].flat().filter((choice) => [b].flat().some((other) => equalJson(choice, other)));
    case "required":
    case "pattern":
      return [...new Set([a, b].flat())];
    case "properties":
      return mergeProperties(a as JsonSchema, b as JsonSchema);
    case "items":
    case "additionalProperties":
    case "propertyNames":
      return a === false || b === false ? false : { allOf: [a, b] };
    default:
      return b;
  }
}

const typeInBoth = (a: Json, b: Json): Json[] => {
  if (a === b) return [a];
  return (a === "number" && b === "integer") || (a === "integer" && b === "number") ? ["integer"] : [];
};

function mergeProperties(a: JsonSchema, b: JsonSchema): JsonSchema {
  const merged: JsonSchema = { ...a, ...b };
  for (const name of Object.keys(a)) {
    if (Object.hasOwn(b, name)) setOwn(merged, name, { allOf: [a[name] as Json, b[name] as Json] });
  }
  return merged;
}

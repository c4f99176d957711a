// A JSON Schema with nothing left to decide: references followed, alternatives chosen, and all of it put into one.
import { equalJson, type Json } from "../../core/json.ts";
import { follow, isSchema, numberOf, propertiesOf, requiredOf, type JsonSchema } from "../../core/json-schema.ts";

export type Choose = (alternatives: JsonSchema[]) => JsonSchema;

/** One plain schema that is as narrow as the given one, or narrower. Its `pattern` may be a list: all of them hold. */
export function resolve(schema: JsonSchema, root: JsonSchema, choose: Choose, depth = 0): JsonSchema {
  const { $ref: reference, allOf, anyOf, oneOf, ...plain } = schema;
  // Deeper than any schema: references that only lead to each other.
  if (depth > 50) return plain;
  const parts = [...(reference === undefined ? [] : [follow(schema, root)]), ...schemasIn(allOf)];
  for (const alternatives of [anyOf, oneOf]) {
    const list = schemasIn(alternatives);
    if (list.length > 0) parts.push(choose(list));
  }
  // What stands beside a reference comes last: its title and default are said for this place.
  return [...parts.map((part) => resolve(part, root, choose, depth + 1)), plain].reduce(both, {});
}

/** The schemas of a list of them; `false` lets nothing through and is left out, `true` is {}. */
export const schemasIn = (list: Json | undefined): JsonSchema[] =>
  Array.isArray(list) ? list.flatMap((one) => (one === true ? [{}] : isSchema(one) ? [one] : [])) : [];

/** A schema that takes what both take. */
function both(a: JsonSchema, b: JsonSchema): JsonSchema {
  const result: JsonSchema = { ...a, ...b };
  for (const [keyword, join] of Object.entries(joins)) {
    const [one, other] = [a[keyword], b[keyword]];
    if (one !== undefined && other !== undefined) result[keyword] = join(one, other);
  }
  if (a["properties"] !== undefined && b["properties"] !== undefined) {
    const [one, other] = [propertiesOf(a), propertiesOf(b)];
    result["properties"] = { ...one, ...other };
    for (const name of Object.keys(one)) {
      const [left, right] = [one[name], other[name]];
      if (left && right) result["properties"][name] = all(left, right);
    }
  }
  if (a["required"] !== undefined) result["required"] = [...new Set([...requiredOf(a), ...requiredOf(b)])];
  return result;
}

const larger = (a: Json, b: Json): Json => Math.max(numberOf(a) ?? -Infinity, numberOf(b) ?? -Infinity);
const smaller = (a: Json, b: Json): Json => Math.min(numberOf(a) ?? Infinity, numberOf(b) ?? Infinity);
const all = (a: Json, b: Json): Json => {
  if (a === false || b === false) return false;
  return equalJson(a, b) ? a : { allOf: [a, b] };
};
const listed = (value: Json): Json[] => (Array.isArray(value) ? value : [value]);

const joins: { [keyword: string]: (a: Json, b: Json) => Json } = {
  type: (a, b) => listed(a).flatMap((type) => typesInBoth(type, listed(b))),
  enum: (a, b) => listed(a).filter((choice) => listed(b).some((other) => equalJson(choice, other))),
  pattern: (a, b) => [...new Set([...listed(a), ...listed(b)])],
  items: all,
  additionalProperties: all,
  propertyNames: all,
  ...Object.fromEntries(
    ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"].map((keyword) => [keyword, larger]),
  ),
  ...Object.fromEntries(
    ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"].map((keyword) => [keyword, smaller]),
  ),
};

function typesInBoth(type: Json, others: Json[]): Json[] {
  if (others.includes(type)) return [type];
  if (type === "number" && others.includes("integer")) return ["integer"];
  return type === "integer" && others.includes("number") ? ["integer"] : [];
}

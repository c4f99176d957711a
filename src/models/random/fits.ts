// Whether a value fits a JSON Schema, as far as the keywords go that say something about arguments of tools.
import { equalJson, type Json } from "../../core/json.ts";
import { follow, isSchema, numberOf, requiredOf, type JsonSchema } from "../../core/json-schema.ts";

/** Formats are not looked at, nor keywords that are not named here. */
export function fits(value: Json, schema: Json | undefined, root: JsonSchema, depth = 0): boolean {
  if (typeof schema === "boolean") return schema;
  // Deeper than any value that is made: references that only lead to each other.
  if (!isSchema(schema) || depth > 200) return true;
  const at = (value: Json, schema: Json | undefined): boolean => fits(value, schema, root, depth + 1);
  if (schema["$ref"] !== undefined && !at(value, follow(schema, root))) return false;
  return (
    isOfType(value, schema["type"]) &&
    (schema["const"] === undefined || equalJson(schema["const"], value)) &&
    (!Array.isArray(schema["enum"]) || schema["enum"].some((choice) => equalJson(choice, value))) &&
    fitsCombined(value, schema, at) &&
    fitsKind(value, schema, at)
  );
}

type At = (value: Json, schema: Json | undefined) => boolean;

function isOfType(value: Json, type: Json | undefined): boolean {
  if (type === undefined) return true;
  if (Array.isArray(type)) return type.some((one) => isOfType(value, one));
  if (type === "integer") return Number.isInteger(value);
  return type === kindOf(value);
}

function kindOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

const listOf = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : []);

function fitsCombined(value: Json, schema: JsonSchema, at: At): boolean {
  const { anyOf, oneOf, allOf, not, if: condition } = schema;
  if (anyOf !== undefined && !listOf(anyOf).some((one) => at(value, one))) return false;
  if (oneOf !== undefined && listOf(oneOf).filter((one) => at(value, one)).length !== 1) return false;
  if (!listOf(allOf).every((one) => at(value, one))) return false;
  if (not !== undefined && at(value, not)) return false;
  return condition === undefined || at(value, at(value, condition) ? schema["then"] : schema["else"]);
}

function fitsKind(value: Json, schema: JsonSchema, at: At): boolean {
  if (typeof value === "number") return fitsNumber(value, schema);
  if (typeof value === "string") return fitsText(value, schema);
  if (Array.isArray(value)) return fitsList(value, schema, at);
  return value === null || typeof value === "boolean" || fitsObject(value, schema, at);
}

const isWithin = (value: number, schema: JsonSchema, least: string, most: string): boolean =>
  value >= (numberOf(schema[least]) ?? -Infinity) && value <= (numberOf(schema[most]) ?? Infinity);

function fitsNumber(value: number, schema: JsonSchema): boolean {
  const step = numberOf(schema["multipleOf"]);
  return (
    isWithin(value, schema, "minimum", "maximum") &&
    value > (numberOf(schema["exclusiveMinimum"]) ?? -Infinity) &&
    value < (numberOf(schema["exclusiveMaximum"]) ?? Infinity) &&
    (step === undefined || Math.abs(value / step - Math.round(value / step)) < 1e-9)
  );
}

function fitsText(value: string, schema: JsonSchema): boolean {
  const { pattern } = schema;
  return (
    isWithin(value.length, schema, "minLength", "maxLength") &&
    (typeof pattern !== "string" || (compiled(pattern)?.test(value) ?? true))
  );
}

/** undefined if it is no pattern of JavaScript. */
export function compiled(pattern: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      return new RegExp(pattern, flags);
    } catch {
      // Patterns of other dialects may escape what needs none, which only the older kind of expression takes.
    }
  }
  return undefined;
}

function fitsList(value: Json[], schema: JsonSchema, at: At): boolean {
  const { items, prefixItems } = schema;
  const first = listOf(prefixItems ?? (Array.isArray(items) ? items : undefined));
  const rest = Array.isArray(items) ? schema["additionalItems"] : items;
  return (
    isWithin(value.length, schema, "minItems", "maxItems") &&
    value.every((item, n) => at(item, n < first.length ? first[n] : rest)) &&
    (schema["uniqueItems"] !== true ||
      !value.some((item, n) => value.slice(0, n).some((other) => equalJson(item, other))))
  );
}

function fitsObject(value: { [key: string]: Json }, schema: JsonSchema, at: At): boolean {
  const keys = Object.keys(value);
  return (
    isWithin(keys.length, schema, "minProperties", "maxProperties") &&
    [...requiredOf(schema)].every((name) => Object.hasOwn(value, name)) &&
    keys.every((key) => at(key, schema["propertyNames"]) && fitsProperty(key, value[key] as Json, schema, at))
  );
}

function fitsProperty(key: string, value: Json, schema: JsonSchema, at: At): boolean {
  const { properties, patternProperties } = schema;
  const schemas = [
    ...(isSchema(properties) && Object.hasOwn(properties, key) ? [properties[key]] : []),
    ...Object.entries(isSchema(patternProperties) ? patternProperties : {}).flatMap(([pattern, one]) =>
      compiled(pattern)?.test(key) ? [one] : [],
    ),
  ];
  return schemas.length > 0 ? schemas.every((one) => at(value, one)) : at(value, schema["additionalProperties"]);
}

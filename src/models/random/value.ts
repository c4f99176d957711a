// A random value that fits a JSON Schema.
import { equalJson, setOwn, type Json } from "../../core/json.ts";
import { follow, isSchema, numberOf, propertiesOf, requiredOf, type JsonSchema } from "../../core/json-schema.ts";
import { between, chance, pick, type Random } from "./draw.ts";
import { compiled, fits } from "./fits.ts";
import { randomNumber } from "./number.ts";
import { textMaker } from "./pattern.ts";
import { resolve, schemasIn } from "./resolve.ts";
import { randomText } from "./text.ts";

/** From here on a value ends as soon as it can: no more optional properties, and the alternative that is soonest done. */
const shallow = 4;
/** A schema that wants a value in itself without end gets null there. */
const deepest = 40;

interface Making {
  root: JsonSchema;
  random: Random;
  /** Attempts that are left, for the value as a whole: what no attempt can fit must not multiply with every level. */
  retries: number;
}

/** Fits the schema as far as `fits` can tell, unless nothing does or nothing was found in many attempts. */
export function randomValue(schema: JsonSchema, random: Random): Json {
  return make(schema, { root: schema, random, retries: 400 }, 0);
}

function make(schema: JsonSchema, making: Making, depth: number): Json {
  for (let attempt = 0; ; attempt++) {
    const value = attemptAt(schema, making, depth, attempt);
    if (making.retries <= 0 || attempt >= 40 || fits(value, schema, making.root)) return value;
    making.retries--;
  }
}

function attemptAt(schema: JsonSchema, making: Making, depth: number, attempt: number): Json {
  if (depth > deepest) return null;
  const { random, root } = making;
  const plain = resolve(schema, root, (alternatives) => choose(alternatives, making, depth));
  if (plain["const"] !== undefined) return plain["const"];
  if (Array.isArray(plain["enum"])) return pick(random, plain["enum"]) ?? null;
  const given = plain["default"];
  if (given !== undefined && attempt === 0 && chance(random, 0.2)) return given;
  switch (kindOf(plain, random)) {
    case "object":
      return makeObject(plain, making, depth);
    case "array":
      return makeList(plain, making, depth);
    case "integer":
      return randomNumber(plain, true, random);
    case "number":
      return randomNumber(plain, false, random);
    case "boolean":
      return chance(random, 0.5);
    case "string":
      return randomText(plain, random, attempt);
    default:
      return null;
  }
}

function choose(alternatives: JsonSchema[], { random, root }: Making, depth: number): JsonSchema {
  if (depth < shallow) return pick(random, alternatives) ?? {};
  const heights = alternatives.map((one) => height(one, root, new Set()));
  const least = Math.min(...heights);
  return (
    pick(
      random,
      alternatives.filter((_, n) => heights[n] === least),
    ) ?? {}
  );
}

/** How many levels the lowest value has that fits; Infinity if it has to contain itself. */
function height(schema: JsonSchema, root: JsonSchema, above: ReadonlySet<JsonSchema>): number {
  const target = follow(schema, root);
  if (above.has(target)) return Infinity;
  const inside = new Set([...above, target]);
  const of = (one: JsonSchema): number => height(one, root, inside);
  const alternatives = [target["anyOf"], target["oneOf"]].map(schemasIn).filter(({ length }) => length > 0);
  const properties = propertiesOf(target);
  const required = [...requiredOf(target)].map(
    (name) => (Object.hasOwn(properties, name) ? properties[name] : {}) ?? {},
  );
  const items = (numberOf(target["minItems"]) ?? 0) > 0 && isSchema(target["items"]) ? [target["items"]] : [];
  return Math.max(
    ...alternatives.map((list) => Math.min(...list.map(of))),
    ...schemasIn(target["allOf"]).map(of),
    ...[...required, ...items, ...schemasIn(target["prefixItems"])].map((one) => 1 + of(one)),
    0,
  );
}

const kinds = ["string", "integer", "number", "boolean", "null"] as const;

/** A type that it names; or the one that its other keywords are about; or any that is quickly made. */
function kindOf(schema: JsonSchema, random: Random): Json {
  const { type } = schema;
  if (type !== undefined) return Array.isArray(type) ? (pick(random, type) ?? "null") : type;
  const speaksOf = (...keywords: string[]): boolean => keywords.some((keyword) => schema[keyword] !== undefined);
  if (speaksOf("properties", "required", "additionalProperties", "patternProperties", "propertyNames")) return "object";
  if (speaksOf("items", "prefixItems", "minItems", "maxItems")) return "array";
  if (speaksOf("pattern", "format", "minLength", "maxLength")) return "string";
  if (speaksOf("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")) return "number";
  return pick(random, kinds);
}

function makeList(schema: JsonSchema, making: Making, depth: number): Json[] {
  const { items, prefixItems } = schema;
  const isTuple = Array.isArray(prefixItems) || Array.isArray(items);
  const first = schemasIn(prefixItems ?? items);
  const rest = Array.isArray(items) ? schema["additionalItems"] : items;
  // Nothing is said of what follows a tuple: then nothing should.
  const takesMore = rest === undefined ? !isTuple : rest !== false;
  const least = numberOf(schema["minItems"]) ?? 0;
  const most = Math.min(numberOf(schema["maxItems"]) ?? Infinity, takesMore ? Infinity : first.length);
  const start = Math.max(Math.min(first.length, most), least);
  const count = depth >= shallow ? start : between(making.random, start, Math.min(most, Math.min(start, 1000) + 3));
  const list: Json[] = [];
  // No more than 1,000: what asks for more will have to refuse this.
  for (let tries = 0; list.length < Math.min(count, 1000) && tries < count + 50; tries++) {
    const item = make(first[list.length] ?? (isSchema(rest) ? rest : {}), making, depth + 1);
    if (schema["uniqueItems"] === true && list.some((other) => equalJson(item, other))) continue;
    list.push(item);
  }
  return list;
}

function makeObject(schema: JsonSchema, making: Making, depth: number): Json {
  const { random } = making;
  const properties = propertiesOf(schema);
  const required = requiredOf(schema);
  const object: { [key: string]: Json } = {};
  const add = (name: string, property: JsonSchema): void => setOwn(object, name, make(property, making, depth + 1));
  for (const [name, property] of Object.entries(properties)) {
    // { not: {} } is how a schema says that a property must not be there.
    const isNever = isSchema(property["not"]) && Object.keys(property["not"]).length === 0;
    if (required.has(name) || (!isNever && depth < shallow && chance(random, 0.6))) add(name, property);
  }
  for (const name of required) if (!Object.hasOwn(object, name)) add(name, schemaOfOther(schema, name));
  const least = numberOf(schema["minProperties"]) ?? 0;
  const most = numberOf(schema["maxProperties"]) ?? Infinity;
  const others = takesOthers(schema) && depth < shallow ? between(random, 0, 3) : 0;
  const count = Math.min(Math.max(least, Object.keys(object).length + others), most, 1000);
  for (let tries = 0; Object.keys(object).length < count && tries < count + 20; tries++) {
    const name = otherName(schema, making, depth);
    if (!Object.hasOwn(object, name)) add(name, schemaOfOther(schema, name));
  }
  return object;
}

/** Whether it says what other properties are like. Where it only does not refuse them, it is not asking for any. */
function takesOthers(schema: JsonSchema): boolean {
  const { additionalProperties: others, patternProperties, propertyNames } = schema;
  if (patternProperties !== undefined) return true;
  return others !== false && (propertyNames !== undefined || (isSchema(others) && Object.keys(others).length > 0));
}

function otherName(schema: JsonSchema, making: Making, depth: number): string {
  const { propertyNames, patternProperties } = schema;
  if (isSchema(propertyNames)) return String(make({ type: "string", ...propertyNames }, making, depth + 1));
  const pattern = isSchema(patternProperties) ? pick(making.random, Object.keys(patternProperties)) : undefined;
  const matching = pattern === undefined ? undefined : textMaker(pattern)?.(making.random, 4);
  return matching ?? randomText({ minLength: 1, maxLength: 8 }, making.random, 0);
}

function schemaOfOther({ patternProperties, additionalProperties }: JsonSchema, name: string): JsonSchema {
  const found = Object.entries(isSchema(patternProperties) ? patternProperties : {}).find(([pattern]) =>
    compiled(pattern)?.test(name),
  );
  const schema = found ? found[1] : additionalProperties;
  return isSchema(schema) ? schema : {};
}

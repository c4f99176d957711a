// sample(): a valid value for a JSON Schema, random or as simple as possible.
import { equalJson, setOwn, type Json } from "./json.ts";
import {
  compilePattern,
  follow,
  isSchema,
  mergeSchemas,
  asNumber,
  readProperties,
  readRequired,
  schemasIn,
  type JsonSchema,
} from "./json-schema.ts";
import { patternMaker } from "./pattern-text.ts";
import { between, chance, pick, randomStream, type Random } from "./random.ts";

/** From this depth on, optional properties and items are omitted. */
const shallow = 4;
/** A schema that requires itself endlessly gets null at this depth. */
const deepest = 40;
/** Limits for one sample. If a schema asks for more, the sample is cut to the limit. */
const most = { schemas: 50_000, items: 1000, characters: 10_000 };
/** Always draws the first choice and the lowest count. */
const plainest: Random = () => 0;
const maybe = (random: Random, probability: number): boolean => random !== plainest && chance(random, probability);

interface Sampling {
  root: JsonSchema;
  random: Random;
  /** The number of schemas that may still be read. */
  left: number;
}

/**
 * Creates a value from a schema. The same random numbers give the same value. Without `random`, the value is a plain
 * example with defaults, first choices and required properties only. It terminates for every schema. `not`, `if` and
 * `contains` are ignored.
 */
export function sample(schema: JsonSchema, random: Random = plainest): Json {
  return valueFor(schema, { root: schema, random, left: most.schemas }, 0);
}

function valueFor(schema: JsonSchema, sampling: Sampling, depth: number): Json {
  if (sampling.left-- <= 0 || depth > deepest) return null;
  const { random } = sampling;
  const plain = resolved(schema, sampling, depth);
  const { const: only, default: preset, enum: choices } = plain;
  if (only !== undefined) return only;
  if (preset !== undefined && (random === plainest || chance(random, 0.2))) return preset;
  if (Array.isArray(choices)) return pick(random, choices) ?? null;
  switch (typeFor(plain, random)) {
    case "object":
      return objectFor(plain, sampling, depth);
    case "array":
      return listFor(plain, sampling, depth);
    case "integer":
      return numberFor(plain, true, random);
    case "number":
      return numberFor(plain, false, random);
    case "boolean":
      return maybe(random, 0.5);
    case "string":
      return textFor(plain, random);
    default:
      return null;
  }
}

/** Returns one schema without references and alternatives. It is at least as strict as the input. */
function resolved(schema: JsonSchema, sampling: Sampling, depth: number, hops = 0): JsonSchema {
  const { $ref: reference, allOf, anyOf, oneOf, ...plain } = schema;
  // References may be circular.
  if (sampling.left-- <= 0 || hops > 50) return plain;
  const parts = schemasIn(allOf);
  if (reference !== undefined) parts.unshift(follow(schema, sampling.root));
  for (const alternatives of [schemasIn(anyOf), schemasIn(oneOf)]) {
    if (alternatives.length > 0) parts.push(choose(alternatives, sampling, depth));
  }
  // Keywords next to a reference are applied last, because they describe this place, for example its title and default.
  return [...parts.map((part) => resolved(part, sampling, depth, hops + 1)), plain].reduce(mergeSchemas, {});
}

function choose(alternatives: JsonSchema[], { random, root }: Sampling, depth: number): JsonSchema {
  if (depth < shallow) return pick(random, alternatives) ?? {};
  // Alternatives with the fewest references terminate soonest.
  const references = alternatives.map((one) => JSON.stringify(follow(one, root)).split('"$ref"').length);
  const fewest = Math.min(...references);
  const soonest = alternatives.filter((_, n) => references[n] === fewest);
  return pick(random, soonest) ?? {};
}

const keywords: [type: string, ...keywords: string[]][] = [
  ["object", "properties", "required", "additionalProperties", "patternProperties", "propertyNames"],
  ["array", "items", "prefixItems", "minItems", "maxItems"],
  ["string", "pattern", "format", "minLength", "maxLength"],
  ["number", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
];
const scalars = ["string", "integer", "number", "boolean", "null"] as const;

/** Returns a type that the schema names, or the type that its keywords imply, or any type. */
function typeFor(schema: JsonSchema, random: Random): Json {
  const { type } = schema;
  if (Array.isArray(type)) return pick(random, type) ?? "null";
  const implied = keywords.find(([, ...about]) => about.some((keyword) => schema[keyword] !== undefined))?.[0];
  return type ?? implied ?? (random === plainest ? "object" : pick(random, scalars));
}

function listFor(schema: JsonSchema, sampling: Sampling, depth: number): Json[] {
  const { items, prefixItems } = schema;
  const isTuple = Array.isArray(prefixItems) || Array.isArray(items);
  const first = schemasIn(prefixItems ?? items);
  const rest = Array.isArray(items) ? schema["additionalItems"] : items;
  // A tuple that does not describe further items gets none.
  const takesMore = rest === undefined ? !isTuple : rest !== false;
  const limit = Math.min(asNumber(schema["maxItems"]) ?? Infinity, takesMore ? most.items : first.length, most.items);
  const least = Math.min(Math.max(asNumber(schema["minItems"]) ?? 0, first.length), limit);
  const count = depth >= shallow ? least : between(sampling.random, least, Math.min(limit, least + 3));
  const list: Json[] = [];
  for (let tries = 0; list.length < count && tries < count + 50; tries++) {
    const item = valueFor(first[list.length] ?? (isSchema(rest) ? rest : {}), sampling, depth + 1);
    if (schema["uniqueItems"] !== true || !list.some((other) => equalJson(item, other))) list.push(item);
  }
  return list;
}

function objectFor(schema: JsonSchema, sampling: Sampling, depth: number): Json {
  const { random } = sampling;
  const required = readRequired(schema);
  const object: { [key: string]: Json } = {};
  const add = (name: string, property: JsonSchema): void =>
    setOwn(object, name, valueFor(property, sampling, depth + 1));
  for (const [name, property] of Object.entries(readProperties(schema))) {
    // { not: {} } forbids a property.
    const isNever = isSchema(property["not"]) && Object.keys(property["not"]).length === 0;
    if (required.has(name) || (!isNever && depth < shallow && maybe(random, 0.6))) add(name, property);
  }
  for (const name of required) if (!Object.hasOwn(object, name)) add(name, otherProperty(schema, name));
  const others = takesOthers(schema) && depth < shallow ? between(random, 0, 3) : 0;
  const wanted = Math.max(asNumber(schema["minProperties"]) ?? 0, Object.keys(object).length + others);
  const count = Math.min(wanted, asNumber(schema["maxProperties"]) ?? Infinity, most.items);
  for (let tries = 0; Object.keys(object).length < count && tries < count + 20; tries++) {
    const name = otherName(schema, sampling, depth, tries);
    if (!Object.hasOwn(object, name)) add(name, otherProperty(schema, name));
  }
  return object;
}

/** Returns whether the schema describes additional properties. Merely allowing them is not enough. */
function takesOthers({ additionalProperties: others, patternProperties, propertyNames }: JsonSchema): boolean {
  if (patternProperties !== undefined) return true;
  return others !== false && (propertyNames !== undefined || (isSchema(others) && Object.keys(others).length > 0));
}

function otherName(schema: JsonSchema, sampling: Sampling, depth: number, tries: number): string {
  const { propertyNames, patternProperties } = schema;
  if (isSchema(propertyNames)) return String(valueFor({ type: "string", ...propertyNames }, sampling, depth + 1));
  const pattern = isSchema(patternProperties) ? pick(sampling.random, Object.keys(patternProperties)) : undefined;
  if (pattern !== undefined) return textFor({ pattern }, sampling.random);
  return sampling.random === plainest ? `key${tries}` : words(sampling.random, 1, 8);
}

function otherProperty({ patternProperties, additionalProperties }: JsonSchema, name: string): JsonSchema {
  const patterns = Object.entries(isSchema(patternProperties) ? patternProperties : {});
  const found = patterns.find(([pattern]) => compilePattern(pattern)?.test(name));
  const schema = found ? found[1] : additionalProperties;
  return isSchema(schema) ? schema : {};
}

/** Draws a number: usually near 1, sometimes at a bound or anywhere between the bounds. */
function numberFor(schema: JsonSchema, isWhole: boolean, random: Random): number {
  const bound = (keyword: string, none: number): number => asNumber(schema[keyword]) ?? none;
  const [above, below] = [bound("exclusiveMinimum", -Infinity), bound("exclusiveMaximum", Infinity)];
  const [least, greatest] = [Math.max(bound("minimum", -Infinity), above), Math.min(bound("maximum", Infinity), below)];
  const step = chooseStep(bound("multipleOf", 0), isWhole, greatest - least);
  // Gives 0.3 rather than 0.30000000000000004. Far from 0, fewer digits would be another number.
  const inUnits = (steps: number): number => {
    const product = steps * step;
    const short = Number(product.toPrecision(15));
    return Math.abs(short - product) < step / 1_000 ? short : product;
  };
  // From here on, all values are counted in steps.
  let first = least === above ? Math.floor(least / step) + 1 : Math.ceil(least / step);
  let last = greatest === below ? Math.ceil(greatest / step) - 1 : Math.floor(greatest / step);
  // The division rounds: 0.001 / 0.00001 is more than 100.
  if (inUnits(first) <= above) first++;
  if (inUnits(last) >= below) last--;
  if (last < first) return (least + greatest) / 2;
  const usual = Math.max(Math.min(Math.round(1 / step), last), first);
  if (random === plainest) return inUnits(usual);
  const reach = chance(random, 0.1) ? 2 ** 52 : Math.max(100, Math.round(100 / step));
  const [low, high] = [Math.max(first, usual - reach), Math.min(last, usual + reach)];
  const edge = random();
  return inUnits(edge < 0.05 ? low : edge < 0.1 ? high : between(random, low, high));
}

/** Returns the distance between valid numbers. Integers that are multiples of 1.5 are multiples of 3. */
function chooseStep(multiple: number, isWhole: boolean, width: number): number {
  if (multiple <= 0) return isWhole ? 1 : Math.min(0.01, 10 ** (Math.floor(Math.log10(width || 1)) - 2));
  if (!isWhole) return multiple;
  for (let times = 1; times <= 1000; times++) {
    const step = Number((multiple * times).toPrecision(12));
    if (Number.isInteger(step)) return step;
  }
  return multiple;
}

/** Draws a text from a format, from patterns, or from words. If there is a list of patterns, all must match. */
function textFor(schema: JsonSchema, random: Random): string {
  const least = Math.min(asNumber(schema["minLength"]) ?? 0, most.characters);
  const limit = asNumber(schema["maxLength"]) ?? Infinity;
  const patterns = ([schema["pattern"] ?? []].flat() as Json[]).filter((one) => typeof one === "string");
  // Joined texts match all patterns if the one anchored at the start comes first and the one at the end last.
  const order = (pattern: string): number => (pattern.startsWith("^") ? 0 : pattern.endsWith("$") ? 2 : 1);
  patterns.sort((a, b) => order(a) - order(b));
  const [tests, makers] = [patterns.map(compilePattern), patterns.map(patternMaker)];
  const format = formats[String(schema["format"])];
  const longest = Math.max(4, Math.min(2 * least, limit));
  let text = "";
  for (let attempt = 0; attempt < 100; attempt++) {
    const draw = random === plainest && attempt > 0 ? randomStream(0, attempt) : random;
    // A pattern may be stricter than the format, for example require another uuid version.
    if (format && (makers.length === 0 || attempt % 2 === 0)) text = format(draw, longest);
    else if (makers.length > 0 && !makers.includes(undefined)) {
      text = makers.map((make) => make?.(draw, longest)).join("");
    } else text = words(draw, least, Math.min(limit, Math.max(24, least + 8)));
    if (text.length >= least && text.length <= limit && tests.every((test) => test?.test(text) ?? true)) break;
  }
  return text;
}

const vocabulary = ["text", "to", "red", "blue", "seven", "apple", "house", "river", "naïve", "日本", "x-1"] as const;

function words(random: Random, least: number, limit: number): string {
  if (random === plainest) return "text".padEnd(least, "x").slice(0, limit);
  const length = between(random, least, Math.max(least, limit));
  let text = "";
  while (text.length < length) text += (text === "" ? "" : " ") + pick(random, vocabulary);
  // A trailing space would be trimmed, and the text would be too short.
  return text.slice(0, length).replace(/ $/, ".");
}

const name = "[a-z]{1,8}";
const date = "(19[7-9]|20[0-3])[0-9]-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])";
const time = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]";
const ipv6 = "([0-9a-f]{4}:){7}[0-9a-f]{4}";
const byte = "([1-9]?[0-9]|1[0-9][0-9])";
const host = `${name}[.]example[.]com`;
const uri = `https://${host}/${name}([?]q=1)?`;

/** Formats as patterns. */
const formats = Object.fromEntries(
  Object.entries({
    date,
    time: `${time}Z`,
    "date-time": `${date}T${time}Z`,
    duration: "P[1-9]DT[1-9]H",
    email: `${name}@${host}`,
    uuid: "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    uri,
    url: uri,
    "uri-reference": uri,
    hostname: host,
    ipv4: `(${byte}[.]){3}${byte}`,
    ipv6,
    cidrv6: `${ipv6}/([1-9]?[0-9]|1[01][0-9])`,
    emoji: "😀|🚀|🌲",
    regex: name,
    "json-pointer": `/${name}`,
    jwt: "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9[.]eyJzdWIiOiJhIn0[.][0-9a-f]{16}",
  }).map(([format, pattern]) => [format, patternMaker(pattern)]),
);

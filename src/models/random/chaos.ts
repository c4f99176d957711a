// Typical mistakes that models make: invalid arguments, text that is not JSON, unknown tools, repeated call ids.
import type { Json } from "../../core/json.ts";
import { readProperties, readRequired, type JsonSchema } from "../../core/json-schema.ts";
import { isFunctionCall, type FunctionCall, type Item, type ModelRequest } from "../../core/model.ts";
import { reservedToolNames } from "../../core/reserved-names.ts";
import { between, pick, type Random } from "../../core/random.ts";

/** Returns an answer with a mistake in it. */
export function spoiled(output: Item[], request: ModelRequest, random: Random): Item[] {
  const calls = output.filter(isFunctionCall);
  // Without calls, the only possible mistake is an empty answer.
  if (calls.length === 0) return [];
  return pick(random, [emptied, renamed, repeated, misused, misused, misused])(output, request, random);
}

type Spoil = (output: Item[], request: ModelRequest, random: Random) => Item[];

const emptied: Spoil = () => [];

const names = [...reservedToolNames, "no_such_tool", "__proto__", "constructor", "", "../etc"];

const renamed: Spoil = (output, _, random) => changed(output, () => ({ name: pick(random, names) }));

/** Repeats a call id from this answer or an earlier answer. */
const repeated: Spoil = (output, { input }, random) => {
  const ids = [...input, ...output].filter(isFunctionCall).map(({ call_id }) => call_id);
  const call_id = pick(random, ids) ?? "call";
  const same = changed(output, () => ({ call_id }));
  return same.filter(isFunctionCall).length > 1 ? same : [...same, ...same.filter(isFunctionCall)];
};

const misused: Spoil = (output, { tools = [] }, random) =>
  changed(output, (call) => ({
    arguments: badArguments(call.arguments, tools.find(({ name }) => name === call.name)?.parameters ?? {}, random),
  }));

const changed = (output: Item[], change: (call: FunctionCall) => Partial<FunctionCall>): Item[] =>
  output.map((item) => (isFunctionCall(item) ? { ...item, ...change(item) } : item));

/** Makes invalid arguments from valid arguments. */
function badArguments(good: string, schema: JsonSchema, random: Random): string {
  const fields = JSON.parse(good) as { [name: string]: Json };
  const spoil = pick(random, [brokenText, notAnObject, leftOut, wrongType, extra]);
  return spoil(typeof fields === "object" && fields !== null ? fields : {}, schema, random);
}

type SpoilArguments = (fields: { [name: string]: Json }, schema: JsonSchema, random: Random) => string;

const brokenText: SpoilArguments = (fields, _, random) => {
  const text = JSON.stringify(fields);
  return pick(random, ["", "{", "{'a': 1}", `${text},`, text.slice(0, between(random, 0, text.length - 1)), "\u0000"]);
};

const notAnObject: SpoilArguments = (fields, _, random) =>
  pick(random, [
    "null",
    "3",
    '"text"',
    "[]",
    "1e400",
    JSON.stringify([fields]),
    JSON.stringify(JSON.stringify(fields)),
  ]);

const leftOut: SpoilArguments = (fields, schema, random) => {
  const { [pick(random, [...readRequired(schema)]) ?? ""]: _, ...rest } = fields;
  return JSON.stringify(rest);
};

const wrongType: SpoilArguments = (fields, schema, random) => {
  const name = pick(random, Object.keys(readProperties(schema))) ?? "value";
  const value = pick(random, ["null", "true", '"not what it should be"', "0.5", "1e308", "-1e400", "[[]]", nested]);
  return withField(fields, name, value);
};

const extra: SpoilArguments = (fields, _, random) => {
  const name = pick(random, ["unknown_field", "__proto__", "constructor", "toString"]);
  return withField(fields, name, pick(random, ['{"polluted":true}', "1", nested]));
};

/** Nested deeper than a state may be. */
const nested = "[".repeat(600) + "]".repeat(600);

// The arguments are a string, as a model writes them, because an object cannot hold 1e400 or __proto__.
function withField(fields: { [name: string]: Json }, name: string, value: string): string {
  const others = Object.entries(fields).filter(([key]) => key !== name);
  const texts = others.map(([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one)}`);
  return `{${[...texts, `${JSON.stringify(name)}:${value}`].join(",")}}`;
}

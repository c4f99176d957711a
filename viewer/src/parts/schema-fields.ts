// Maps a JSON Schema to form fields, and the values of the fields to one value.
import type { Json } from "../../../src/core/json.ts";
import { follow, isSchema, readProperties, type JsonSchema } from "../../../src/core/json-schema.ts";

/** undefined for an omitted value: the server checks whether it is required. */
export type Draft = Json | undefined;

interface AnyField {
  description: string;
  isRequired: boolean;
  isNullable: boolean;
  initial: Draft;
}

export type Field = AnyField &
  (
    | { kind: "text" | "boolean" | "json" }
    | { kind: "number"; isWhole: boolean }
    | { kind: "choice"; choices: Json[] }
    | { kind: "list"; item: Field }
    | { kind: "object"; fields: { name: string; field: Field }[] }
  );

/** Maximum depth of a form, because a schema may contain itself. */
const deepest = 6;

/** Returns the members of anyOf, oneOf or allOf, whichever is present first. */
function listAlternatives(schema: JsonSchema): JsonSchema[] {
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const found = schema[key];
    if (Array.isArray(found) && found.length > 0) return found.filter(isSchema);
  }
  return [];
}

/** Returns the type of a schema, or the first of its types. */
function readType(schema: JsonSchema): Json | undefined {
  const { type } = schema;
  if (type === undefined && schema["properties"] !== undefined) return "object";
  return Array.isArray(type) ? type[0] : type;
}

export function toField(schema: JsonSchema, isRequired = true, root = schema, depth = 0): Field {
  const followed = follow(schema, root);
  const alternatives = listAlternatives(followed);
  const others = alternatives.filter((one) => readType(one) !== "null");
  const [only] = others;
  // A nullable type.
  if (alternatives.length > others.length && others.length === 1 && only) {
    const inner = toField(only, isRequired, root, depth);
    const { description, default: given } = followed;
    return {
      ...inner,
      isNullable: true,
      initial: given ?? inner.initial,
      ...(typeof description === "string" && { description }),
    };
  }
  const types = followed["type"];
  const any: AnyField = {
    description: typeof followed["description"] === "string" ? followed["description"] : "",
    isRequired,
    isNullable: Array.isArray(types) && types.includes("null"),
    initial: followed["default"],
  };
  const bare = Array.isArray(types) ? types.filter((type) => type !== "null") : [readType(followed)];
  const type = bare.length === 1 ? bare[0] : undefined;
  const choices = choicesOf(followed);
  if (choices) return { ...any, kind: "choice", choices };
  if (alternatives.length > 0 || depth > deepest) return { ...any, kind: "json" };
  return { ...any, ...kindOf(type, followed, root, depth), initial: any.initial ?? initialOf(type, isRequired) };
}

function choicesOf({ enum: listed, const: only }: JsonSchema): Json[] | undefined {
  return Array.isArray(listed) ? listed : only === undefined ? undefined : [only];
}

/** An empty value for required fields, so that the user need not enter it. */
function initialOf(type: Json | undefined, isRequired: boolean): Draft {
  if (!isRequired) return undefined;
  const empty: { [type: string]: Json } = { boolean: false, string: "", object: {}, array: [] };
  return typeof type === "string" ? empty[type] : undefined;
}

type Kind = Field extends infer F ? (F extends Field ? Omit<F, keyof AnyField> : never) : never;

function kindOf(type: Json | undefined, schema: JsonSchema, root: JsonSchema, depth: number): Kind {
  const { items, additionalProperties: others } = schema;
  if (type === "string") return { kind: "text" };
  if (type === "boolean") return { kind: "boolean" };
  if (type === "integer" || type === "number") return { kind: "number", isWhole: type === "integer" };
  if (type === "array" && isSchema(items)) return { kind: "list", item: toField(items, true, root, depth + 1) };
  const named = Object.entries(readProperties(schema));
  // A form cannot ask for keys with arbitrary names.
  if (type !== "object" || (isSchema(others) && named.length === 0)) return { kind: "json" };
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const fields = named.map(([name, property]) => ({
    name,
    field: toField(property, required.includes(name), root, depth + 1),
  }));
  return { kind: "object", fields };
}

/** The initial value of a form. */
export function initialValue(field: Field): Draft {
  if (field.kind !== "object" || field.initial === undefined) return field.initial;
  let value = field.initial;
  for (const { name, field: inner } of field.fields) {
    if (isSchema(value) && value[name] === undefined) value = withKey(value, name, initialValue(inner)) ?? {};
  }
  return value;
}

/** Returns an object with one key changed or removed. The key order stays. */
export function withKey(object: Draft, name: string, value: Draft): { [key: string]: Json } {
  const entries = Object.entries(isSchema(object as Json) ? (object as JsonSchema) : {});
  const isThere = entries.some(([key]) => key === name);
  const all: [string, Draft][] = isThere
    ? entries.map(([key, known]) => [key, key === name ? value : known])
    : [...entries, [name, value]];
  return Object.fromEntries(all.filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

/** Replaces an empty value: omitted if the field is optional, null if that is allowed. */
export function omitEmpty(field: Field, value: Draft): Draft {
  const isEmpty =
    value === undefined ||
    value === "" ||
    (typeof value === "object" && value !== null && Object.keys(value).length === 0);
  if (!isEmpty) return value;
  if (!field.isRequired) return undefined;
  return field.isNullable ? null : value;
}

/** The initial value of a new list entry. */
export const newEntry = (field: Field): Json =>
  initialValue(field) ?? (field.kind === "number" ? 0 : field.kind === "choice" ? (field.choices[0] ?? null) : null);

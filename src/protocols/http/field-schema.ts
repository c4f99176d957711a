// The subset of JSON Schema that describes requests: code that checks values, and the types of checked values.
import { isObject, jsonOrText, type Json } from "../../core/json.ts";

type Kind = "integer" | "number" | "string" | "boolean" | "object" | "array" | "null";

export interface FieldSchema {
  readonly type?: Kind | readonly Kind[];
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  /** The value for a missing parameter. Used in queries only. */
  readonly default?: number;
  readonly items?: FieldSchema;
  readonly properties?: { readonly [name: string]: FieldSchema };
  readonly required?: readonly string[];
  /** Fields that are allowed only together with others. */
  readonly dependentRequired?: { readonly [name: string]: readonly string[] };
  readonly additionalProperties?: false;
  readonly minProperties?: number;
  readonly maxProperties?: number;
}

/** The type of a value that has passed the schema. */
export type ParsedBy<S> = S extends { readonly properties: infer P }
  ? { -readonly [Name in keyof P as Name extends PresentIn<S> ? Name : never]: ParsedBy<P[Name]> } & {
      -readonly [Name in keyof P as Name extends PresentIn<S> ? never : Name]?: ParsedBy<P[Name]>;
    }
  : S extends { readonly type: "integer" | "number" }
    ? number
    : S extends { readonly type: "string" }
      ? string
      : S extends { readonly type: "boolean" }
        ? boolean
        : S extends { readonly type: "object" }
          ? { [name: string]: Json }
          : unknown;
type PresentIn<S> = RequiredOf<S> | (S extends { readonly properties: infer P } ? DefaultedIn<P> : never);
type RequiredOf<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;
type DefaultedIn<P> = { [Name in keyof P]: P[Name] extends { readonly default: unknown } ? Name : never }[keyof P];

export interface Problem {
  /** The path to the field, with dots. */
  field: string;
  message: string;
}

/** Returns the first problem in a value, with a message that describes a valid value. */
export function problemIn(schema: FieldSchema, value: unknown, field: string): Problem | undefined {
  if (!fits(schema, value))
    return { field, message: `${field} must be ${inWords(schema)}, not ${describeValue(value)}` };
  if (Array.isArray(value)) {
    if (schema.items)
      for (const [at, item] of value.entries()) {
        const problem = problemIn(schema.items, item, `${field}.${at}`);
        if (problem) return problem;
      }
    return undefined;
  }
  return typeof value === "object" && value !== null ? problemInFields(schema, value, field) : undefined;
}

function problemInFields(schema: FieldSchema, value: object, whole: string): Problem | undefined {
  const { properties = {}, required = [], dependentRequired = {}, additionalProperties } = schema;
  for (const [name, item] of Object.entries(value) as [string, unknown][]) {
    if (Object.hasOwn(properties, name)) {
      const problem = problemIn(properties[name] as FieldSchema, item, pathTo(whole, name));
      if (problem) return problem;
    } else if (additionalProperties === false) {
      const known = Object.keys(properties);
      const takes = known.length > 0 ? `its fields are ${listed(known)}` : "it has no fields";
      return { field: pathTo(whole, name), message: `${whole} has no field ${quoted(name)}; ${takes}` };
    }
  }
  for (const name of required) {
    if (Object.hasOwn(value, name)) continue;
    const right = inWords(properties[name] ?? {});
    return { field: pathTo(whole, name), message: `${pathTo(whole, name)} is missing; it must be ${right}` };
  }
  for (const [name, others] of Object.entries(dependentRequired)) {
    const missing = Object.hasOwn(value, name) ? others.find((other) => !Object.hasOwn(value, other)) : undefined;
    if (missing) return { field: pathTo(whole, name), message: `${name} requires ${missing}; send both or neither` };
  }
  const { minProperties = 0, maxProperties = Infinity } = schema;
  const count = Object.keys(value).length;
  if (count >= minProperties && count <= maxProperties) return undefined;
  const allowed = minProperties === maxProperties ? `${minProperties}` : `${minProperties} to ${maxProperties}`;
  return { field: whole, message: `${whole} must have ${allowed} of these fields: ${listed(Object.keys(properties))}` };
}

/** Names top-level fields without a prefix: "version", not "body.version". */
function pathTo(whole: string, name: string): string {
  return whole === "the body" || whole === "the query" ? name : `${whole}.${name}`;
}

function fits(schema: FieldSchema, value: unknown): boolean {
  const kinds = listKinds(schema);
  if (kinds.length > 0 && !kinds.some((kind) => isKind[kind](value))) return false;
  if (schema.enum && !schema.enum.includes(value as string)) return false;
  if (typeof value !== "number") return true;
  return value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity);
}

const isKind: { [K in Kind]: (value: unknown) => boolean } = {
  // A value with more digits than a double can hold is not the integer that the client meant.
  integer: Number.isSafeInteger,
  number: Number.isFinite,
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  object: isObject,
  array: Array.isArray,
  null: (value) => value === null,
};

function listKinds({ type }: FieldSchema): readonly Kind[] {
  return type === undefined ? [] : typeof type === "string" ? [type] : type;
}

/** Describes a schema, as in "an integer from 1 to 1000". */
function inWords(schema: FieldSchema): string {
  if (schema.enum) return `one of ${listed(schema.enum.map(quoted))}`;
  const { minimum, maximum } = schema;
  const range =
    minimum === undefined ? "" : maximum === undefined ? ` of at least ${minimum}` : ` from ${minimum} to ${maximum}`;
  const kinds = listKinds(schema).map((kind) => words[kind]);
  return (kinds.join(" or ") || "any JSON") + range;
}

const words: { [K in Kind]: string } = {
  integer: "an integer",
  number: "a number",
  string: "a string",
  boolean: "true or false",
  object: "an object",
  array: "an array",
  null: "null",
};

function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return quoted(value);
  if (typeof value === "object") return value === null ? "null" : Array.isArray(value) ? "an array" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}

const quoted = (text: string): string => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
const listed = (names: readonly string[]): string => names.join(", ");

/** Parses a query by its schema and adds defaults. A value that cannot be parsed stays a string. */
export function readQuery(schema: FieldSchema, query: URLSearchParams): { [name: string]: unknown } {
  const read: [string, unknown][] = Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    field.default === undefined ? [] : [[name, field.default]],
  );
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    const field = Object.hasOwn(schema.properties ?? {}, name) ? schema.properties?.[name] : undefined;
    // A repeated parameter is ambiguous. As an array, it matches no schema.
    read.push([name, values.length > 1 ? values : readText(field, values[0] as string)]);
  }
  return Object.fromEntries(read);
}

export function readText(schema: FieldSchema | undefined, text: string): unknown {
  if (schema?.type === "integer" && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (schema?.type === "boolean" && (text === "true" || text === "false")) return text === "true";
  if (schema?.type === "object") return jsonOrText(text);
  return text;
}

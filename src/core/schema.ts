// Schemas from any Standard Schema library: checks a value and describes its problems.
import type { StandardSchemaV1 } from "@standard-schema/spec";

import { messageOf } from "./errors.ts";
import { copyJson, type Json } from "./json.ts";

export type Schema = StandardSchemaV1;
export type Input<S extends Schema> = StandardSchemaV1.InferInput<S>;
export type Output<S extends Schema> = StandardSchemaV1.InferOutput<S>;

/** The default schema type: any object. */
export type AnyObject = Schema & { "~standard": { types?: { input: object; output: object } } };

/** Returns whether a value is a Standard Schema. */
export const isSchema = (value: unknown): value is Schema =>
  typeof (value as Partial<Schema> | null | undefined)?.["~standard"]?.validate === "function";

export type Checked = { ok: true; value: unknown } | { ok: false; message: string };

/** Checks a value; returns a promise only if the schema does. */
export function check(schema: Schema | undefined, value: unknown): Checked | Promise<Checked> {
  if (!schema) return { ok: true, value };
  try {
    const result = schema["~standard"].validate(value);
    return result instanceof Promise ? result.then(checked).catch(broken) : checked(result);
  } catch (thrown) {
    return broken(thrown);
  }
}

function broken(thrown: unknown): Checked {
  return { ok: false, message: `the schema failed: ${messageOf(thrown)}` };
}

function checked(result: StandardSchemaV1.Result<unknown>): Checked {
  return result.issues
    ? { ok: false, message: result.issues.map(inWords).join("; ") }
    : { ok: true, value: result.value };
}

/** Returns the JSON Schema of a schema's input; {} if its library cannot provide one. */
export function toJsonSchema(schema: Schema | undefined): { [key: string]: Json } {
  const standard = schema?.["~standard"] as { jsonSchema?: { input(options: object): unknown } } | undefined;
  try {
    const made = standard?.jsonSchema?.input({ target: "draft-2020-12" });
    if (typeof made !== "object" || made === null) return {};
    const { $schema: _, ...rest } = copyJson(made, "schema", "drop") as { [key: string]: Json };
    return rest;
  } catch {
    // Some schemas, such as transforms and functions, have no JSON Schema. Callers learn the rules from the refusal.
    return {};
  }
}

function inWords({ message, path }: StandardSchemaV1.Issue): string {
  const steps = (path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
  return steps.length > 0 ? `${steps.join(".")}: ${message}` : message;
}

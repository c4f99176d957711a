// Schemas: any library that speaks Standard Schema. Checks a value and says in words what is wrong with it.
import type { StandardSchemaV1 } from "@standard-schema/spec";

export type Schema = StandardSchemaV1;
export type Input<S extends Schema> = StandardSchemaV1.InferInput<S>;
export type Output<S extends Schema> = StandardSchemaV1.InferOutput<S>;

export type Checked = { ok: true; value: unknown } | { ok: false; message: string };

/** Checks a value; gives a promise only where the schema does. */
export function check(schema: Schema | undefined, value: unknown): Checked | Promise<Checked> {
  if (!schema) return { ok: true, value };
  const result = schema["~standard"].validate(value);
  return result instanceof Promise ? result.then(checked) : checked(result);
}

function checked(result: StandardSchemaV1.Result<unknown>): Checked {
  return result.issues
    ? { ok: false, message: result.issues.map(inWords).join("; ") }
    : { ok: true, value: result.value };
}

function inWords({ message, path }: StandardSchemaV1.Issue): string {
  const steps = (path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
  return steps.length > 0 ? `${steps.join(".")}: ${message}` : message;
}

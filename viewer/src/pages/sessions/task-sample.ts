// Makes a sample task from the task schema.
import type { Json } from "../../../../src/core/json.ts";
import { sample } from "../../../../src/core/json-sample.ts";
import { isSchema, readProperties, readRequired } from "../../../../src/core/json-schema.ts";

/** The required fields, or every field if none is required. */
export function sampleTask(schema: Json | undefined): Json {
  if (!isSchema(schema)) return {};
  const isFree = readRequired(schema).size === 0;
  return sample(isFree ? { ...schema, required: Object.keys(readProperties(schema)) } : schema);
}

// listTools(): an environment's tools with their JSON Schemas.
import type { AnyEnvironment } from "../../core/environment.ts";
import type { Json } from "../../core/json.ts";
import { toJsonSchema, type Schema } from "../../core/schema.ts";

export interface ListedTool {
  name: string;
  description: string;
  inputSchema: { [key: string]: Json };
  outputSchema?: { [key: string]: Json };
}

/** Returns the tools of an environment in their order. */
export function listTools({ definitions }: AnyEnvironment): ListedTool[] {
  return [...definitions].map(([name, { description, input, output }]) => ({
    name,
    description,
    inputSchema: { type: "object", ...toJsonSchema(input) },
    ...outputSchema(output),
  }));
}

/** Returns the schema of an object output. Other outputs have no structured content, so they get no schema. */
function outputSchema(output: Schema | undefined): Pick<ListedTool, "outputSchema"> {
  const schema = toJsonSchema(output);
  return schema["type"] === "object" ? { outputSchema: schema } : {};
}

// Tools as MCP shows them: the list, and a call's result.
import type { AnyEnvironment } from "../../core/environment.ts";
import { isObject, type Json } from "../../core/json.ts";
import { toJsonSchema } from "../../core/schema.ts";
import type { Answer } from "../../core/sessions.ts";

export interface ListedTool {
  name: string;
  description: string;
  inputSchema: { [key: string]: Json };
}

/** Returns the tools of an environment in their order. */
export function listTools({ definitions }: AnyEnvironment): ListedTool[] {
  return [...definitions].map(([name, { description, input }]) => ({
    name,
    description,
    inputSchema: { type: "object", ...toJsonSchema(input) },
  }));
}

/** The result of a call. A type, so that it has an index signature. */
export type ToolResult = {
  content: { type: "text"; text: string }[];
  structuredContent?: Json;
  isError?: true;
  _meta?: { [key: string]: Json };
};

export const failedResult = (text: string, code: string): ToolResult => ({
  content: [{ type: "text", text }],
  isError: true,
  _meta: { "dev.holdfast/code": code },
});

/** Builds the result that a model reads: the tool's output or its error. */
export function toResult(answer: Answer): ToolResult {
  if (!answer.ok) return failedResult(answer.error.message, answer.error.code);
  const { output } = answer;
  const text = typeof output === "string" ? output : JSON.stringify(output ?? null);
  const content: ToolResult["content"] = [{ type: "text", text }];
  return isObject(output) ? { content, structuredContent: output } : { content };
}

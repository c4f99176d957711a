// Converts the answer of a call to an MCP result.
import { isObject, type Json } from "../../core/json.ts";

/** The result of a call. It is a type, because an interface has no implicit index signature. */
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

/** Builds the result that a model reads from a tool's output. */
export function toResult(output: Json): ToolResult {
  const text = typeof output === "string" ? output : JSON.stringify(output ?? null);
  const content: ToolResult["content"] = [{ type: "text", text }];
  return isObject(output) ? { content, structuredContent: output } : { content };
}

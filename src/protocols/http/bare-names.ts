// Tool names as harnesses show them to a model: `mcp__SERVER__TOOL`.
import { isObject } from "../../core/json.ts";

/**
 * Returns a model's response with the tool names that its environment knows, for verify. Harnesses rename an MCP
 * server's tools to `mcp__SERVER__TOOL`.
 */
export function bareNames<T>(response: T, server: string): T {
  if (!isObject(response) || !Array.isArray(response["output"])) return response;
  const prefix = `mcp__${server}__`;
  const isPrefixed = (item: unknown): item is { name: string } =>
    isObject(item) && typeof item["name"] === "string" && item["name"].startsWith(prefix);
  if (!response["output"].some(isPrefixed)) return response;
  const output = response["output"].map((item: unknown) =>
    isPrefixed(item) ? { ...item, name: item.name.slice(prefix.length) } : item,
  );
  return { ...response, output };
}

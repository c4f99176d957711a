// Tool names as harnesses show them to a model: `mcp__SERVER__TOOL`.
import { isObject } from "./json.ts";

interface Served {
  name: string;
  definitions: ReadonlyMap<string, unknown>;
}

/**
 * Codex replaces the characters that a model API may not accept. The length stays the same, so a
 * prefix can be cut off by its length. */
const plain = (name: string): string => name.replaceAll(/[^A-Za-z0-9_]/g, "_");

/** Returns the environment's own name of a tool. Returns a name without the environment's prefix unchanged. */
function bareName(given: string, { name, definitions }: Served): string {
  const prefix = plain(`mcp__${name}__`);
  if (plain(given.slice(0, prefix.length)) !== prefix) return given;
  const tool = given.slice(prefix.length);
  if (definitions.has(tool)) return tool;
  return [...definitions.keys()].find((known) => plain(known) === plain(tool)) ?? tool;
}

/** Returns whether a name shown to a model can be the name of this tool, with any prefix from the harness. */
export const isNameOf = (given: string, tool: string): boolean => `__${plain(given)}`.endsWith(`__${plain(tool)}`);

/** Returns a model's response with the tool names that its environment knows, for verify. */
export function bareNames<T>(response: T, environment: Served): T {
  if (!isObject(response) || !Array.isArray(response["output"])) return response;
  let isChanged = false;
  const output = response["output"].map((item: unknown) => {
    if (!isObject(item) || typeof item["name"] !== "string") return item;
    const name = bareName(item["name"], environment);
    if (name === item["name"]) return item;
    isChanged = true;
    return { ...item, name };
  });
  return isChanged ? { ...response, output } : response;
}

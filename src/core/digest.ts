// canonicalText(): the text to digest for a JSON value. Equal values have equal texts, whatever the order of their
// keys.
import type { Json } from "./json.ts";

/** Returns JSON without whitespace, with keys sorted by UTF-16 code units. */
export function canonicalText(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`).join(",")}}`;
}

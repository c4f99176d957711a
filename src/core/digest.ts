// canonicalText(): the text to digest for a JSON value. Equal values have equal texts, in any order of keys.
import type { Json } from "./json.ts";

/** Returns JSON without whitespace, with keys sorted by UTF-16 code units. */
export function canonicalText(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  let text = "";
  if (Array.isArray(value)) {
    // Token ids: thousands of numbers in one list.
    if (value.every((item) => typeof item === "number")) return JSON.stringify(value);
    for (const item of value) text += `${text && ","}${canonicalText(item)}`;
    return `[${text}]`;
  }
  for (const key of Object.keys(value).sort()) {
    text += `${text && ","}${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`;
  }
  return `{${text}}`;
}

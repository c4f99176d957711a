// digestJson(): the digest of a JSON value, equal for equal values in any order of keys.
import type { Json } from "./json.ts";

/** Returns the SHA-256 of the value's canonical text, in hexadecimal. */
export async function digestJson(value: Json): Promise<string> {
  // Web Crypto, because core/ imports nothing; it is asynchronous only.
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonicalText(value)));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns JSON without white space, with keys sorted by UTF-16 code units. */
export function canonicalText(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`).join(",")}}`;
}

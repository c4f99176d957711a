// The digest of a JSON value: the same for equal values, whatever the order of their keys.
import type { Json } from "./json.ts";

/** SHA-256 of the value's canonical text, in hexadecimal. */
export async function digestOf(value: Json): Promise<string> {
  // Web Crypto, because core/ imports nothing; it has no call that answers at once.
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonicalText(value)));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** JSON without white space, and with the keys of every object in the order of their UTF-16 code units. */
export function canonicalText(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalText(value[key] as Json)}`).join(",")}}`;
}

// Strings with NUL are written and read as bytes, because some drivers cut a string at its first NUL.
import type { Value } from "./file.ts";

/** The placeholder of an id, a key or a name in a statement. `toValue` makes its value. */
export const anyText = "CAST(? AS TEXT)";

export function toValue(text: string | undefined): Value {
  return text?.includes("\0") ? Buffer.from(text) : (text ?? null);
}

/** Selects a string, as bytes if it has a NUL. `toText` converts the result. */
export function wholeText(column: string): string {
  return `CASE WHEN instr(CAST(${column} AS BLOB), x'00') > 0 THEN CAST(${column} AS BLOB) ELSE ${column} END`;
}

export function toText(text: string | Uint8Array): string {
  return typeof text === "string" ? text : Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString();
}

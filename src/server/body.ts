// Checks request bodies: JSON in UTF-8, within the limits. Anything else is refused with the reason.
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { HoldfastError } from "../core/errors.ts";
import type { Limits } from "./limits.ts";

/** Returns whether a body follows the headers. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return length === undefined ? headers["transfer-encoding"] !== undefined : length !== "0";
}

/** Returns the reason to refuse a body without reading it. */
export function bodyFault({ headers }: IncomingMessage, limits: Limits): HoldfastError | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    const message = "a compressed body is not supported; send it without content-encoding";
    return new HoldfastError("unsupported_media_type", message);
  }
  const type = headers["content-type"];
  // Refuses a page's body without a type, because a browser sends it to another site without asking that site first.
  const isPage = headers.origin !== undefined || headers["sec-fetch-site"] !== undefined;
  if (type === undefined ? isPage : type !== "application/json" && !isJson(type)) {
    const message = "the content type is not JSON; send content-type: application/json";
    return new HoldfastError("unsupported_media_type", message);
  }
  return Number(headers["content-length"] ?? 0) > limits.body ? tooLarge(limits) : undefined;
}

// Long values are refused first, because the pattern would take seconds on many spaces.
const isJson = (type: string): boolean =>
  type.length < 200 &&
  /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?\s*$/i.test(type);

export const tooLarge = ({ body }: Limits): HoldfastError =>
  new HoldfastError("body_too_large", `the body is larger than the limit of ${body} bytes`, {
    detail: { limit: body },
  });

/** Parses a whole body. Throws if it is not JSON in UTF-8. */
export function parseBody(chunks: readonly Buffer[], size: number): unknown {
  const bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size);
  if (!isUtf8(bytes)) throw new TypeError("it is not UTF-8");
  return JSON.parse(bytes.toString());
}

const quote = 34;
const backslash = 92;
const colon = 58;
const comma = 44;
/** Plain values in lists, such as token ids, cost a fifth as much as objects and keys. */
const plainValues = 5;
/** After 100 keys in one object, further keys cost five times as much, because V8 keeps them in a table. */
const [cheapKeys, tableKey] = [100, 5];

/**
 * Returns a function that scans a body piece by piece, and returns the reason to refuse it. It scans the bytes before
 * they are parsed. Otherwise, deep nesting could overflow the stack of a recursive check, and parsing many small values
 * would take far longer than the scan.
 */
export function createShapeCheck({ depth, values }: Limits): (bytes: Buffer) => string | undefined {
  const kept = { level: 0, count: 0, commas: 0, isText: false, isEscaped: false };
  /** The number of keys so far in the open object at each level. */
  const keys: number[] = [];
  return (bytes) => {
    // Uses local variables, which are several times faster than fields of `kept`.
    let { level, count, commas, isText, isEscaped } = kept;
    for (let at = 0; at < bytes.length; at++) {
      const code = bytes[at];
      if (isText) {
        if (isEscaped) isEscaped = false;
        else if (code === backslash) isEscaped = true;
        else if (code === quote) isText = false;
      } else if (code === quote) isText = true;
      else if (code === comma) commas++;
      else if (code === colon) count += ++keys[level]! > cheapKeys ? tableKey : 1;
      else if (code === 123 || code === 91) {
        count++;
        if (++level > depth) return `it is nested deeper than ${depth} levels`;
        keys[level] = 0;
      } else if (code === 125 || code === 93) level--;
    }
    Object.assign(kept, { level, count, commas, isText, isEscaped });
    if (count > values) return `it has more than ${values} objects, lists and keys`;
    return commas > values * plainValues ? `it has more than ${values * plainValues} values` : undefined;
  };
}

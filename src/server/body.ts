// Reads request bodies: JSON in UTF-8, within the limits. Anything else is refused with the reason.
import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { HoldfastError, messageOf } from "../core/errors.ts";
import type { Limits } from "./limits.ts";

/** Tells whether a body follows the headers. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return length === undefined ? headers["transfer-encoding"] !== undefined : length !== "0";
}

/** Returns the reason to refuse a body without reading it. */
export function bodyFault({ headers }: IncomingMessage, limits: Limits): HoldfastError | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    return new HoldfastError("unsupported_media_type", "send the body without a content-encoding");
  }
  const type = headers["content-type"];
  // A page can send a body without a type to another site, and the browser does not ask that site first.
  const isPage = headers.origin !== undefined || headers["sec-fetch-site"] !== undefined;
  if (type === undefined ? isPage : type !== "application/json" && !isJson(type)) {
    return new HoldfastError("unsupported_media_type", "send the body as JSON, with content-type: application/json");
  }
  return Number(headers["content-length"] ?? 0) > limits.body ? tooLarge(limits) : undefined;
}

// Long values are refused first: many spaces would keep the expression busy for seconds.
const isJson = (type: string): boolean =>
  type.length < 200 &&
  /^\s*application\/(?:[\w.!#$&^-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?\s*$/i.test(type);

const tooLarge = ({ body }: Limits): HoldfastError =>
  new HoldfastError("body_too_large", `the body may have ${body} bytes`, { detail: { limit: body } });

/**
 * Reads a body and calls back once, or never if the client disconnects first. The rest of a refused body is read and
 * discarded, so the connection can carry the next request.
 */
export function readBody(
  incoming: IncomingMessage,
  limits: Limits,
  done: (fault: HoldfastError | undefined, body?: unknown) => void,
): void {
  const chunks: Buffer[] = [];
  let size = 0;
  incoming.on("data", (chunk: Buffer) => {
    if (size > limits.body) return;
    size += chunk.length;
    if (size <= limits.body) chunks.push(chunk);
    else {
      chunks.length = 0;
      done(tooLarge(limits));
    }
  });
  incoming.on("end", () => {
    if (size > limits.body) return;
    const [first] = chunks;
    if (!first) return done(undefined);
    let body: unknown;
    try {
      body = parsed(chunks.length === 1 ? first : Buffer.concat(chunks, size), limits.depth);
    } catch (thrown) {
      const error = new HoldfastError("invalid_json", `the body cannot be read: ${messageOf(thrown).slice(0, 300)}`);
      return done(error);
    }
    done(undefined, body);
  });
}

function parsed(bytes: Buffer, depth: number): unknown {
  if (!isUtf8(bytes)) throw new TypeError("it is not UTF-8");
  const text = bytes.toString();
  // Deeper nesting needs at least two brackets per level, so short texts skip the scan.
  if (text.length > depth * 2 && isDeeper(text, depth)) throw new TypeError(`it is nested deeper than ${depth} levels`);
  return JSON.parse(text);
}

const quote = 34;
const backslash = 92;

/** Scans the text instead of the parsed value: deep nesting can overflow the stack of any recursive check. */
function isDeeper(text: string, depth: number): boolean {
  let level = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      do at = text.indexOf('"', at + 1);
      while (at >= 0 && isEscaped(text, at));
      if (at < 0) return false;
    } else if (code === 123 || code === 91) {
      if (++level > depth) return true;
    } else if (code === 125 || code === 93) level--;
  }
  return false;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++;
  return slashes % 2 === 1;
}

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

export interface BodyReader {
  /** Counts bytes that are kept until the body is complete. False if there is no room for them. */
  keep(bytes: number): boolean;
  done(fault: HoldfastError | undefined, body?: unknown): void;
}

/**
 * Reads a body and calls `done` once, or never if the client disconnects first. The rest of a refused body is read and
 * discarded, so the connection can carry the next request.
 */
export function readBody(incoming: IncomingMessage, limits: Limits, { keep, done }: BodyReader): void {
  const chunks: Buffer[] = [];
  let size = 0;
  let isRefused = false;
  const refuse = (fault: HoldfastError): void => {
    isRefused = true;
    chunks.length = 0;
    done(fault);
  };
  incoming.on("data", (chunk: Buffer) => {
    if (isRefused) return;
    size += chunk.length;
    if (size > limits.body) refuse(tooLarge(limits));
    else if (keep(chunk.length)) chunks.push(chunk);
    else refuse(new HoldfastError("too_busy", "the server is receiving too many large bodies at once; try again"));
  });
  incoming.on("end", () => {
    if (isRefused) return;
    const [first] = chunks;
    if (!first) return done(undefined);
    let body: unknown;
    try {
      body = parsed(chunks.length === 1 ? first : Buffer.concat(chunks, size), limits);
    } catch (thrown) {
      const error = new HoldfastError("invalid_json", `the body cannot be read: ${messageOf(thrown).slice(0, 300)}`);
      return done(error);
    }
    done(undefined, body);
  });
}

function parsed(bytes: Buffer, limits: Limits): unknown {
  if (!isUtf8(bytes)) throw new TypeError("it is not UTF-8");
  const text = bytes.toString();
  // Deeper nesting needs at least two brackets per level, so short texts skip the scan.
  const fault = text.length > limits.depth * 2 ? shapeFault(text, limits) : undefined;
  if (fault !== undefined) throw new TypeError(fault);
  return JSON.parse(text);
}

const quote = 34;
const backslash = 92;
const colon = 58;
const comma = 44;
/** Plain values in lists, such as the ids of tokens, cost a fifth of an object or a key. */
const plainValues = 5;

/**
 * Scans the text instead of the parsed value. Deep nesting can overflow the stack of any recursive check. Parsing many small
 * values takes far longer than scanning them.
 */
function shapeFault(text: string, { depth, values }: Limits): string | undefined {
  let level = 0;
  let count = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      do at = text.indexOf('"', at + 1);
      while (at >= 0 && isEscaped(text, at));
      if (at < 0) return undefined;
    } else if (code === 123 || code === 91) {
      if (++level > depth) return `it is nested deeper than ${depth} levels`;
      count++;
    } else if (code === 125 || code === 93) level--;
    else if (code === colon) count++;
    else if (code === comma) commas++;
    if (commas > values * plainValues) return `it has more than ${values * plainValues} values`;
    if (count > values) return `it has more than ${values} objects, lists and keys`;
  }
  return undefined;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++;
  return slashes % 2 === 1;
}

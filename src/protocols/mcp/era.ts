// MCP has two eras: older versions with `initialize`, and the stateless version. Tells them apart and checks requests.
import { isObject } from "../../core/json.ts";
import type { Request } from "../../core/protocol.ts";
import { codes, invalidParams, type Fault, type Message, type Params } from "../http/json-rpc.ts";

/** The stateless revision: every request names its version in `_meta`. */
export const modernVersions = ["2026-07-28"];
/** The revisions with `initialize`, oldest first. */
export const legacyVersions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const versionKey = "io.modelcontextprotocol/protocolVersion";
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities";

const isModernVersion = (version: string | undefined): boolean => modernVersions.includes(version ?? "");

export function metaOf({ params }: Message): Params {
  const meta = params["_meta"];
  return isObject(meta) ? (meta as Params) : {};
}

/**
 * Returns whether a message belongs to the stateless era, based on its `_meta`, or else on the version in its header.
 */
export function isModern(headers: Request["headers"], message: Message): boolean {
  if (metaOf(message)[versionKey] !== undefined) return true;
  return message.method !== "initialize" && isModernVersion(headers["mcp-protocol-version"]?.trim());
}

/** Returns the reason to refuse a request from the stateless era: wrong `_meta`, version or headers. */
export function modernFault(headers: Request["headers"], message: Message): Fault | undefined {
  const meta = metaOf(message);
  const version = meta[versionKey];
  const missing = [
    ...(typeof version === "string" ? [] : [versionKey]),
    ...(isObject(meta[capabilitiesKey]) ? [] : [capabilitiesKey]),
  ];
  if (missing.length > 0) return invalidParams(`params._meta must have ${missing.join(" and ")}`, 400);
  const { method = "", params } = message;
  const mismatch =
    headerFault(headers, "mcp-protocol-version", version as string) ??
    (isModernVersion(version as string) ? undefined : unsupported(version as string)) ??
    headerFault(headers, "mcp-method", method);
  if (mismatch) return mismatch;
  const name = named.get(method);
  const value = name === undefined ? undefined : params[name];
  return typeof value === "string" ? headerFault(headers, "mcp-name", value) : undefined;
}

/** The parameter that the header Mcp-Name repeats, by method. */
const named = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
]);

function headerFault(headers: Request["headers"], header: string, wanted: string): Fault | undefined {
  const given = headers[header]?.trim();
  if (given === wanted || (given !== undefined && decoded(given) === wanted)) return undefined;
  const message = `the header ${header} must equal the value in the body, ${JSON.stringify(wanted)}`;
  return { status: 400, code: codes.headerMismatch, message };
}

/** Decodes a header value that contains characters not allowed in headers. */
function decoded(value: string): string {
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, "base64").toString();
}

function unsupported(requested: string): Fault {
  const message = `protocol version ${requested} is not supported; use ${modernVersions.join(", ")}, or send an initialize request for an older version`;
  return { status: 400, code: codes.unsupportedVersion, message, data: { supported: modernVersions, requested } };
}

/** Returns the reason to refuse a request's version header after `initialize`. */
export function legacyFault(headers: Request["headers"]): Fault | undefined {
  const version = headers["mcp-protocol-version"]?.trim();
  if (version === undefined || legacyVersions.includes(version)) return undefined;
  const message = `MCP-Protocol-Version ${version} is not supported; use one of ${legacyVersions.join(", ")}`;
  return { status: 400, code: codes.invalidRequest, message };
}

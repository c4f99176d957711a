// JSON-RPC for an MCP client: the messages, the two eras, and how to read a refusal.
import { HoldfastError } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";

export interface RpcReply {
  result?: { [key: string]: unknown };
  error?: { code: number; message: string; data?: unknown };
  /** The status of the answer, over HTTP. */
  status?: number;
}

export interface RpcCall {
  method: string;
  params: { [key: string]: unknown };
  /** Milliseconds within which the answer must arrive. */
  timeout: number;
  signal?: AbortSignal | undefined;
  /** True if the server may get the message twice. */
  isRepeatable: boolean;
}

/** How a server was greeted. */
export interface Greeting {
  version: string;
  /** The id of the server's session, over HTTP. */
  session?: string;
}

export const legacyVersion = "2025-11-25";
export const modernVersion = "2026-07-28";

export const isModern = ({ version }: Greeting): boolean => version === modernVersion;

const client = { name: "holdfast", version: "1" };

export const initializeParams = { protocolVersion: legacyVersion, capabilities: {}, clientInfo: client };

/** Adds the `_meta` field that every request in the stateless era has. */
export function withMeta(params: RpcCall["params"]): RpcCall["params"] {
  const meta = {
    ...Object(params["_meta"]),
    "io.modelcontextprotocol/protocolVersion": modernVersion,
    "io.modelcontextprotocol/clientInfo": client,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return { ...params, _meta: meta };
}

/** The JSON-RPC error code of a failure inside the server. */
const internalError = -32603;

/** The error codes of a server that has no `initialize`, because it serves only the stateless era. */
export const hasNoInitialize = ({ error }: RpcReply): boolean => error?.code === -32601 || error?.code === -32022;

/** Finds the reply to a request in a text, which is JSON or a stream of events. Returns undefined if there is none. */
export function findReply(text: string, id: number): RpcReply | undefined {
  const texts = /^\s*[{[]/.test(text) ? [text] : text.split(/\r?\n\r?\n/).map(dataOf);
  return texts.map((part) => parseReply(part, id)).find((reply) => reply !== undefined);
}

const dataOf = (event: string): string =>
  event
    .split(/\r?\n/)
    .flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trimStart()] : []))
    .join("\n");

export function parseReply(text: string, id: number): RpcReply | undefined {
  try {
    const message: unknown = JSON.parse(text);
    if (!isObject(message) || (message["id"] !== id && message["id"] !== null)) return undefined;
    return isObject(message["result"]) || isObject(message["error"]) ? (message as RpcReply) : undefined;
  } catch {
    return undefined;
  }
}

/** `isSent`: the server may have seen the request, and its effect is unknown. */
export const serverFailed = (what: string, isSent: boolean, cause?: unknown): HoldfastError =>
  new HoldfastError("server_failed", what, { cause, ...(isSent && { detail: { isSent } }) });

/** Returns the result of a reply, or throws the server's refusal. A server that failed may have applied the request. */
export function resultOf(name: string, { result, error, status = 200 }: RpcReply): { [key: string]: unknown } {
  if (result) return result;
  const isSent = status >= 500 || error?.code === internalError;
  const what = isSent ? "failed" : "refused the request";
  throw serverFailed(`the MCP server ${name} ${what}: ${error?.message ?? "without a reason"}`, isSent);
}

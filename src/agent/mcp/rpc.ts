// JSON-RPC for an MCP client: the messages, the older and the stateless protocol, and how to read an error.
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError, refuse } from "../../core/errors.ts";
import { isObject, parseJson } from "../../core/json.ts";

export interface RpcReply {
  result?: { [key: string]: unknown };
  error?: { code: number; message: string; data?: unknown };
  /** The HTTP status of the answer; undefined for a child process. */
  status?: number;
}

export interface RpcCall {
  method: string;
  params: { [key: string]: unknown };
  /** Milliseconds within which the answer must arrive. */
  timeout: number;
  signal?: AbortSignal | undefined;
  /** True if it is safe to send the message twice. */
  isRepeatable: boolean;
}

/** The result of initializing a connection to a server. */
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

/** Adds the `_meta` field that every request of the stateless protocol has. */
export function withMeta(params: RpcCall["params"]): RpcCall["params"] {
  const meta = {
    ...Object(params["_meta"]),
    "io.modelcontextprotocol/protocolVersion": modernVersion,
    "io.modelcontextprotocol/clientInfo": client,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return { ...params, _meta: meta };
}

/** The JSON-RPC error codes of an unknown method, of a failure in the server, and of a wrong tool or arguments. */
const unknownMethod = -32601;
const internalError = -32603;
const invalidParams = -32602;

/** Returns whether the server has no `initialize`, because it supports only the stateless protocol. */
export const hasNoInitialize = ({ error }: RpcReply): boolean =>
  error?.code === unknownMethod || error?.code === -32022;

/** Parses a message. Returns undefined if it is not a reply. The id is `null` if the server could not read the request. */
export function parseReply(text: string): (RpcReply & { id?: unknown }) | undefined {
  const message: unknown = parseJson(text);
  if (!isObject(message)) return undefined;
  return isObject(message["result"]) || isObject(message["error"]) ? message : undefined;
}

/**
 * Returns the answer to a request of the server; undefined if the message is not a request. The client supports none,
 * but a server that gets no answer to its `ping` may close the connection.
 */
export function answerTo(text: string): { id: unknown; result?: object; error?: object } | undefined {
  const message: unknown = parseJson(text);
  if (!isObject(message)) return undefined;
  const { id, method } = message;
  if (typeof method !== "string" || id === undefined || id === null) return undefined;
  if (method === "ping") return { id, result: {} };
  return { id, error: { code: unknownMethod, message: `the client does not support ${ellipsis(method, 100)}` } };
}

/** `isSent`: the server may have received the request, so its effect is unknown. */
export const serverFailed = (what: string, isSent: boolean, cause?: unknown): HoldfastError =>
  new HoldfastError("server_failed", what, { cause, ...(isSent && { detail: { isSent } }) });

/**
 * Returns the result of a reply, or throws the server's refusal. A server that failed may have applied the request. If a
 * server refuses a call's parameters, the mistake is the model's, so the model reads the message.
 */
export function resultOf(name: string, reply: RpcReply, method: string): { [key: string]: unknown } {
  const { result, error, status = 200 } = reply;
  if (result) return result;
  const why = error?.message ?? "it gave no reason";
  // A Holdfast server names its error code. This one has the status of a refusal.
  const { code } = Object(error?.data) as { code?: unknown };
  if (code === "outcome_unknown") throw new HoldfastError(code, why);
  const isSent = status >= 500 || error?.code === internalError;
  if (method === "tools/call" && error?.code === invalidParams && !isSent) throw refuse(why);
  throw serverFailed(`the MCP server ${name} ${isSent ? "failed" : "refused the request"}: ${why}`, isSent);
}

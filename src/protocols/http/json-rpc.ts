// JSON-RPC messages: reading one, and writing results and errors.
import type { HoldfastError } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";
import type { Reply } from "../../core/protocol.ts";

export type Id = string | number;
export interface Params {
  [name: string]: unknown;
}

export interface Message {
  /** Undefined for a notification. */
  id: Id | undefined;
  /** Undefined for a client's response. */
  method: string | undefined;
  params: Params;
}

/** The reason to refuse a message, with the HTTP status and the JSON-RPC code of the refusal. */
export interface Fault {
  status: number;
  code: number;
  message: string;
  data?: unknown;
  /** The id of the refused message, if it can be read. */
  id?: Id | undefined;
}

/** The codes that JSON-RPC itself defines. */
export const rpcCodes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
} as const;

export const codes = {
  ...rpcCodes,
  /** The code that the official SDKs use for an unknown session. */
  session: -32001,
  headerMismatch: -32020,
  unsupportedVersion: -32022,
} as const;

export const isFault = (value: object): value is Fault => "code" in value;

export const invalidParams = (message: string, status: number): Fault => ({
  status,
  code: codes.invalidParams,
  message,
});

const invalid = (message: string, id?: Id): Fault => ({ status: 400, code: codes.invalidRequest, message, id });

/** Reads the body of a POST. */
export function readMessage(body: unknown): Message | Fault {
  if (Array.isArray(body)) return invalid("batches are not supported; send one JSON-RPC message per request");
  if (!isObject(body)) return invalid("the body must be one JSON-RPC message");
  const { jsonrpc, id, method, params = {} } = body as Params;
  const isId = typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
  const known = isId ? id : undefined;
  if (jsonrpc !== "2.0") return invalid('the message must have "jsonrpc": "2.0"', known);
  if (id !== undefined && !isId) return invalid("the id of a request must be a string or a number");
  if (method === undefined && ("result" in body || "error" in body)) return { id: known, method, params: {} };
  if (typeof method !== "string") return invalid("the message must have a method", known);
  if (!isObject(params)) return { ...invalidParams("params must be an object", 400), id: known };
  return { id: known, method, params: params as Params };
}

export const resultBody = (id: Id | null, result: object): object => ({ jsonrpc: "2.0", id, result });

export function errorBody(id: Id | null | undefined, { code, message, data }: Omit<Fault, "status">): object {
  return { jsonrpc: "2.0", id: id ?? null, error: { code, message, ...(data !== undefined && { data }) } };
}

export const faultReply = (id: Id | undefined, fault: Fault): Reply => ({
  status: fault.status,
  body: errorBody(id ?? fault.id, fault),
});

/** Turns an error from the engine or the server into a JSON-RPC error. Programs find the error code in `data.code`. */
export function toFault({
  code,
  status,
  message,
  detail,
}: Pick<HoldfastError, "code" | "status" | "message" | "detail">): Fault {
  const rpc =
    code === "invalid_json"
      ? codes.parse
      : code === "session_not_found" || code === "session_closed"
        ? codes.session
        : status >= 500
          ? codes.internal
          : codes.invalidRequest;
  return { status, code: rpc, message, data: { code, ...(Object.keys(detail).length > 0 && { detail }) } };
}

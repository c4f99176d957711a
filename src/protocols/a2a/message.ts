// Reads A2A's JSON-RPC requests and messages, and writes its errors.
import { invalidOption, type ErrorCode, type HoldfastError } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";
import type { Content, Item } from "../../core/model.ts";
import type { ClientResult } from "../../agent/client-tools.ts";
import { rpcCodes, type Id as RpcId } from "../http/json-rpc.ts";
import { fileContent, userMessage } from "../http/user-message.ts";

export type Fields = { [name: string]: unknown };
export type Id = RpcId | null;

/** Error codes of JSON-RPC and of A2A. */
export const codes = {
  ...rpcCodes,
  /** Any other failure. */
  other: -32000,
  taskNotFound: -32001,
  notCancelable: -32002,
  noPush: -32003,
  unsupported: -32004,
  versionNotSupported: -32009,
} as const;

/** A failure with a code of A2A. */
export class A2aError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly status: number;
  constructor(code: keyof typeof codes, message: string, reason: string, status = 400) {
    super(message);
    this.code = codes[code];
    this.reason = reason;
    this.status = status;
  }
}

const codeNames: Partial<Record<ErrorCode, keyof typeof codes>> = {
  invalid_json: "parse",
  invalid_request: "invalidRequest",
  method_not_allowed: "invalidRequest",
  unsupported_media_type: "invalidRequest",
  invalid_option: "invalidParams",
  session_not_found: "invalidParams",
  call_conflict: "invalidParams",
  call_not_open: "invalidParams",
  results_missing: "invalidParams",
  internal: "internal",
};

/** Converts an error of the engine or the server to a JSON-RPC error. */
export function toError(error: Pick<HoldfastError, "code" | "message">): RpcError {
  return errorObject(codes[codeNames[error.code] ?? "other"], error.message, error.code.toUpperCase());
}

export interface RpcError {
  code: number;
  message: string;
  data: object[];
}

export function errorObject(code: number, message: string, reason: string): RpcError {
  const type = "type.googleapis.com/google.rpc.ErrorInfo";
  return { code, message, data: [{ "@type": type, reason, domain: "holdfast.dev" }] };
}

export interface Rpc {
  id: Id;
  method: string;
  params: Fields;
}

/** Reads a request. Throws an A2aError if it is not JSON-RPC. */
export function readRpc(body: unknown): Rpc {
  const { jsonrpc, id, method, params = {} } = Object(body) as Fields;
  const isId = id === null || typeof id === "string" || typeof id === "number";
  if (!isObject(body) || jsonrpc !== "2.0" || typeof method !== "string" || !isId) {
    throw new A2aError("invalidRequest", "the body must be a JSON-RPC 2.0 request with an id", "INVALID_REQUEST");
  }
  if (!isObject(params)) throw new A2aError("invalidParams", "`params` must be an object", "INVALID_PARAMS");
  return { id, method, params };
}

export interface Sent {
  messageId: string;
  contextId: string | undefined;
  /** The task that the message continues. */
  taskId: string | undefined;
  items: Item[];
  /** Results of the calls that the task waits for. */
  results: ClientResult[];
  historyLength: number | undefined;
  returnImmediately: boolean;
}

export const noPush = (): A2aError =>
  new A2aError("noPush", "push notifications are not supported", "PUSH_NOTIFICATION_NOT_SUPPORTED");

/** Reads the parameters of SendMessage. Throws `invalid_option` if they are invalid. */
export function readSent({ message, configuration }: Fields): Sent {
  if (!isObject(message)) throw invalidOption("`message` must be an object");
  const { parts } = message;
  if (message["role"] !== "ROLE_USER") throw invalidOption("`message.role` must be ROLE_USER");
  if (!Array.isArray(parts) || parts.length === 0) throw invalidOption("`message.parts` must be a list of parts");
  const messageId = text(message, "messageId");
  if (messageId === undefined) throw invalidOption("`message.messageId` is required");
  const options = isObject(configuration) ? configuration : {};
  if (isObject(options["taskPushNotificationConfig"])) throw noPush();
  const taskId = text(message, "taskId");
  const isResult = (part: unknown): boolean => taskId !== undefined && resultIn(part) !== undefined;
  const said = parts.filter((part) => !isResult(part));
  const contents = said.map((part: unknown) => readPart(part, `message.parts[${parts.indexOf(part)}]`));
  return {
    messageId,
    contextId: text(message, "contextId"),
    taskId,
    items: contents.length > 0 ? [userMessage(contents)] : [],
    results: parts.filter(isResult).map((part) => resultIn(part) as ClientResult),
    historyLength: readHistoryLength(options),
    returnImmediately: options["returnImmediately"] === true,
  };
}

/** Returns the result in a part with `data` of the form `{ type: "function_call_output", call_id, output }`. */
function resultIn(part: unknown): ClientResult | undefined {
  const { data } = Object(part) as Fields;
  if (!isObject(data) || data["type"] !== "function_call_output" || typeof data["call_id"] !== "string")
    return undefined;
  const { call_id, output = "" } = data;
  return { call_id, output: typeof output === "string" ? output : JSON.stringify(output) };
}

export function readHistoryLength({ historyLength }: Fields): number | undefined {
  if (historyLength === undefined || historyLength === null) return undefined;
  if (Number.isInteger(historyLength) && (historyLength as number) >= 0) return historyLength as number;
  throw invalidOption("`historyLength` must be a number of messages");
}

/** Returns an optional string field. Clients built from A2A's Protobuf definition send "" for a missing field. */
export function text(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string") return value;
  throw invalidOption(`\`${name}\` must be a string`);
}

function readPart(part: unknown, place: string): Content {
  const fields = Object(part) as Fields;
  const { text: said, raw, url, data, filename } = fields;
  const type = text(fields, "mediaType") ?? "application/octet-stream";
  const name = typeof filename === "string" && filename !== "" ? filename : undefined;
  if (typeof said === "string") return { type: "input_text", text: said };
  if (typeof raw === "string") return fileContent({ type, data: raw, name });
  if (typeof url === "string") return fileContent({ type, url, name });
  if (data !== undefined) return { type: "input_text", text: JSON.stringify(data) };
  throw invalidOption(`${place} must have text, raw, url or data`);
}

// Protocol: a wire format that serves sessions. It translates and makes no decisions.
import { ellipsis } from "./ellipsis.ts";
import { HoldfastError } from "./errors.ts";

/** A request, independent of any HTTP library. */
export interface Request {
  /** In upper case. */
  method: string;
  /** The path without the query and the mount's prefix. Starts with "/" and is still percent-encoded. */
  path: string;
  query: URLSearchParams;
  /** By lower-case name. */
  headers: { readonly [name: string]: string | undefined };
  /** The body as JSON; undefined if there is no body. */
  body: unknown;
  /** Aborts when the client disconnects. Created on first use. */
  readonly signal: AbortSignal;
  /** Called once if the client disconnects before the reply is delivered. The protocol sets it. */
  gone?: (() => void) | undefined;
}

export interface Reply {
  status: number;
  headers?: { [name: string]: string };
  /** Sent as JSON. */
  body?: unknown;
  /** Sent unchanged. `headers` sets its content type, by default plain text. */
  text?: string;
  /** Complete server-sent events, or lines. The stream ends when the client disconnects. */
  stream?: AsyncIterable<string>;
  /** The server does not add keep-alive comments, because this stream is never silent for long. */
  quiet?: true;
  /** The subject of the request, for the server's log. */
  about?: { session?: string; call?: string; rollout?: string };
  /** The error, for the server's log. */
  thrown?: unknown;
}

/** Refuses a method that a path does not support. */
export function notAllowed(path: string, method: string, allow: string[]): HoldfastError {
  const message = `${ellipsis(path, 100)} supports ${allow.join(" or ")}, not ${ellipsis(method, 100)}`;
  return new HoldfastError("method_not_allowed", message, { detail: { allow } });
}

/** Turns an error into a reply. */
export function errorReply(error: HoldfastError): Reply {
  const { status, code, detail } = error;
  const reply: Reply = { status, body: error.toJSON(), thrown: error };
  if (code === "unauthorized") reply.headers = { "www-authenticate": "Bearer" };
  if (status === 503 || status === 429) reply.headers = { "retry-after": "1" };
  if (code === "method_not_allowed" && Array.isArray(detail["allow"])) {
    reply.headers = { allow: detail["allow"].join(", ") };
  }
  if (typeof detail["session"] === "string") reply.about = { session: detail["session"] };
  return reply;
}

export interface Protocol {
  readonly name: string;
  /**
   * Returns undefined for a path of a different protocol, without a promise if possible. Refuses a request by returning
   * a reply or by throwing a HoldfastError.
   */
  handle(request: Request): Promise<Reply | undefined> | undefined;
  /**
   * Adds the common parts of this protocol's replies to an error reply that the server creates before or during
   * `handle`.
   */
  decorate?(request: Request, reply: Reply): Reply;
}

/** Signs values that clients return, so that they cannot be forged. */
export interface Tokens {
  /** Returns a token of letters, digits, "-", "_" and ".". */
  issue(value: string): string;
  /** Returns the value of a valid token. */
  check(token: string): string | undefined;
}

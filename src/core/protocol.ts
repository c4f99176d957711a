// The contract of a protocol: a wire format that sessions are served over. It translates, and decides nothing.
import type { HoldfastError } from "./errors.ts";

/** A request, free of any HTTP library. */
export interface Request {
  /** In capitals. */
  method: string;
  /** Without the query and without the prefix it is mounted under; starts with "/". Still percent-encoded. */
  path: string;
  query: URLSearchParams;
  /** By names in small letters. */
  headers: { readonly [name: string]: string | undefined };
  /** The body as JSON; undefined if there was none. */
  body: unknown;
  /** Aborted when the client has gone. Made when it is first read. */
  readonly signal: AbortSignal;
  /** Called once if the client goes before the reply is delivered. For who answers it to set. */
  gone?: (() => void) | undefined;
}

export interface Reply {
  status: number;
  headers?: { [name: string]: string };
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is; `headers` says what it is, by default plain text. */
  text?: string;
  /** Server-sent events, each whole. Ends when the client goes. */
  stream?: AsyncIterable<string>;
  /** Whose it is, for the server's log. */
  about?: { session?: string; call?: string; rollout?: string };
  /** What went wrong, for the server's log. */
  thrown?: unknown;
}

/** The reply that an error becomes. */
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
  /** Undefined if the path is not one of its own. Its refusals are replies, or HoldfastErrors that it throws. */
  handle(request: Request): Promise<Reply | undefined>;
  /** Adds what every reply of its own carries to one that the server makes for it: to a refusal, before `handle` or by it. */
  decorate?(request: Request, reply: Reply): Reply;
}

/** Signs what a client is to bring back, so that nobody can make one up. */
export interface Tokens {
  /** Letters, digits, "-", "_" and "." only. */
  issue(value: string): string;
  /** The value, if the token is one of ours. */
  check(token: string): string | undefined;
}

// Protocol: a wire format for sessions. It only translates requests and replies.
import { ellipsis } from "./ellipsis.ts";
import { HoldfastError } from "./errors.ts";

/** A request, independent of any HTTP library. */
export interface Request {
  /** The HTTP method, in upper case. */
  method: string;
  /** The path without the query and the mount's prefix. Starts with "/" and is still percent-encoded. */
  path: string;
  query: URLSearchParams;
  /** The headers, with lower-case names. */
  headers: { readonly [name: string]: string | undefined };
  /** The body as JSON; undefined if there is no body. */
  body: unknown;
  /** Set by the server if the request has a user token: the request may use only this user's conversations. */
  user?: string | undefined;
  /** Aborts when the client disconnects. Created on first use. */
  readonly signal: AbortSignal;
  /** Set by the protocol. Called once if the client disconnects before the reply is delivered. */
  gone?: (() => void) | undefined;
}

export interface Reply {
  status: number;
  headers?: { [name: string]: string };
  /** A body to send as JSON. */
  body?: unknown;
  /** A body to send unchanged. `headers` sets its content type; the default is plain text. */
  text?: string;
  /** Complete server-sent events, or lines. Empty ones are not sent. The stream ends when the client disconnects. */
  stream?: AsyncIterable<string>;
  /**
   * The stream ends with the result of work that the request began, such as a run or a long call. It continues when the
   * user's token expires, and a server that stops lets it finish. Other streams end in both cases. A stream may remove
   * this field once it only waits for work of another process.
   */
  isRun?: true;
  /** The server adds no keep-alive comments, because this stream sends its own. */
  quiet?: true;
  /** The session and call of the request, for the server's log. */
  about?: { session?: string; call?: string; rollout?: string };
  /** The error, for the server's log. */
  thrown?: unknown;
}

/** A message on a WebSocket: its JSON, or the reason why it is refused. */
export interface Message {
  body?: unknown;
  fault?: HoldfastError;
  /** Set by the channel, for the server's log: the message's session, and the error that the reply reports. */
  session?: string;
  thrown?: unknown;
}

/**
 * Answers the messages of one WebSocket with strings, one message at a time. When it returns, the connection closes.
 * `messages` ends when the client disconnects or the server stops.
 */
export type Channel = (messages: AsyncIterable<Message>) => AsyncIterable<string>;

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
  /** Returns whether the protocol checks its own token on this path, instead of the server's. Default: false. */
  checksToken?(path: string): boolean;
  /** The protocol limits requests with a user token to that user. Default: it gets no such requests. */
  readonly servesUsers?: true;
  /**
   * Returns undefined for a path of a different protocol, without a promise if possible. Refuses a request by returning
   * a reply or by throwing a HoldfastError.
   */
  handle(request: Request): Promise<Reply | undefined> | undefined;
  /** Accepts a WebSocket. Returns undefined for a path without one. May throw a HoldfastError. */
  connect?(request: Request): Channel | undefined;
  /** Adds the common parts of this protocol's replies to an error that the server reports before or in `handle`. */
  decorate?(request: Request, reply: Reply): Reply;
}

/** A protocol that adds to the server's own replies. */
export type DecoratingProtocol = Protocol & Required<Pick<Protocol, "decorate">>;

/** Signs values that clients return, so that they cannot be forged. */
export interface Tokens {
  /** Returns a token of letters, digits, "-", "_" and ".". */
  issue(value: string): string;
  /** Like `issue`, but does not cache the token. For tokens that few clients use. */
  sign(value: string): string;
  /** Returns the value of a valid token. */
  check(token: string): string | undefined;
}

// HostRequest: adapts a Node request to the Request contract. Builds expensive parts on first use.
import type { IncomingMessage } from "node:http";
import type { Request } from "../core/protocol.ts";
import { HoldfastError } from "../core/errors.ts";

export class HostRequest implements Request {
  readonly method: string;
  path: string;
  body: unknown = undefined;
  readonly #incoming: IncomingMessage;
  readonly #search: string;
  #query: URLSearchParams | undefined;
  #headers: Request["headers"] | undefined;
  #leaving: AbortController | undefined;
  #gone: Request["gone"] = undefined;
  #left = false;

  constructor(incoming: IncomingMessage) {
    this.#incoming = incoming;
    // A HEAD request is handled as a GET. Node leaves out the reply's body.
    this.method = incoming.method === "HEAD" ? "GET" : (incoming.method ?? "GET");
    const target = parseTarget(incoming.url ?? "/");
    const mark = target.indexOf("?");
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.#search = mark < 0 ? "" : target.slice(mark + 1);
  }

  get query(): URLSearchParams {
    return (this.#query ??= new URLSearchParams(this.#search));
  }

  get headers(): Request["headers"] {
    return (this.#headers ??= singleHeaders(this.#incoming));
  }

  get signal(): AbortSignal {
    if (!this.#leaving) {
      this.#leaving = new AbortController();
      if (this.#left) this.#leaving.abort();
    }
    return this.#leaving.signal;
  }

  get gone(): Request["gone"] {
    return this.#gone;
  }

  /** Calls back immediately if the client has already disconnected. */
  set gone(gone: Request["gone"]) {
    this.#gone = gone;
    if (this.#left) gone?.();
  }

  /** Marks the client as disconnected. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#leaving?.abort();
    this.#gone?.();
  }

  /** Returns the error in the path or query, if any. */
  fault(): string | undefined {
    if (this.path[0] !== "/") return "the request target must be a path";
    if (!hasFault(this.path) && !hasFault(this.#search)) return undefined;
    return "the path and the query must be percent-encoded UTF-8";
  }
}

function hasFault(text: string): boolean {
  if (!text.includes("%")) return false;
  try {
    decodeURIComponent(text);
    return false;
  } catch {
    return true;
  }
}

/** Returns the path and query. A request sent to a proxy has the scheme and host before them. */
function parseTarget(url: string): string {
  if (url[0] === "/") return url;
  const [, rest] = /^https?:\/\/[^/?#]*(.*)$/i.exec(url) ?? [];
  if (rest === undefined) return url;
  return rest[0] === "/" ? rest : `/${rest}`;
}

/** Node joins repeated headers, except Set-Cookie, which does not belong in a request. */
function singleHeaders({ headers }: IncomingMessage): Request["headers"] {
  if (!("set-cookie" in headers)) return headers as Request["headers"];
  return { ...headers, "set-cookie": headers["set-cookie"]?.join(", ") } as Request["headers"];
}

export function hostFault({ headers, httpVersionMinor, rawHeaders }: IncomingMessage): string | undefined {
  if (headers.host === undefined) {
    return httpVersionMinor === 1 ? "an HTTP/1.1 request must have a Host header" : undefined;
  }
  // Refuses a second Host header. Node keeps the first header, but a proxy on the way may use the second header.
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? "";
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts > 1 ? "a request must have exactly one Host header" : undefined;
}

export function parseFault({ code }: NodeJS.ErrnoException): HoldfastError {
  if (code === "HPE_HEADER_OVERFLOW") return new HoldfastError("headers_too_large", "the headers are too large");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new HoldfastError("request_timeout", "the request took too long");
  return new HoldfastError("invalid_request", "the bytes received are not HTTP/1.1");
}

// HostRequest: a request as Node received it, in the words of the contract. What costs is made when it is first read.
import type { IncomingMessage } from "node:http";
import type { Request } from "../core/protocol.ts";

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
    this.method = incoming.method ?? "GET";
    const target = targetOf(incoming.url ?? "/");
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

  /** Called at once where the client has gone already. */
  set gone(gone: Request["gone"]) {
    this.#gone = gone;
    if (this.#left) gone?.();
  }

  /** The client has gone, or is to be taken for gone. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#leaving?.abort();
    this.#gone?.();
  }

  /** What is wrong with its path and query. */
  fault(): string | undefined {
    if (this.path[0] !== "/") return "the target of a request must be a path";
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

/** The path and query; what a client sends to a proxy has the server's name before it. */
function targetOf(url: string): string {
  if (url[0] === "/") return url;
  const [, rest] = /^https?:\/\/[^/?#]*(.*)$/i.exec(url) ?? [];
  if (rest === undefined) return url;
  return rest[0] === "/" ? rest : `/${rest}`;
}

/** Node joins what came more than once, but for Set-Cookie, which no request should have. */
function singleHeaders({ headers }: IncomingMessage): Request["headers"] {
  if (!("set-cookie" in headers)) return headers as Request["headers"];
  return { ...headers, "set-cookie": headers["set-cookie"]?.join(", ") } as Request["headers"];
}

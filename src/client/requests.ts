// createRequests(): sends requests to a server, sends failed ones again, and turns refusals into HoldfastErrors.
import { errorTable, HoldfastError, isHoldfastError, messageOf, type ErrorCode } from "../core/errors.ts";

export interface ClientOptions {
  /** The server's bearer token, or a user's token. Default: none. */
  token?: string;
  /** How long to keep retrying a failed request, in milliseconds. Default 60,000; 0 means no retries. */
  retryFor?: number;
  /** Sends the requests. Default: the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** One request. `body` is sent as JSON. */
export interface Sending {
  body?: unknown;
  /** Sent as Idempotency-Key, so that the server applies a repeated request once. */
  key?: string | undefined;
  headers?: { [name: string]: string };
  signal?: AbortSignal | undefined;
}

/** Error codes of temporary failures, which are retried. */
const passing: ReadonlySet<string> = new Set<ErrorCode>([
  "version_conflict",
  "call_in_progress",
  "session_busy",
  "session_crowded",
  "turn_lost",
  "engine_stopped",
  "store_busy",
  "store_closed",
  "store_failed",
  "server_failed",
  "server_stopping",
  "too_busy",
]);

const [shortestPause, longestPause] = [50, 2_000];

export function createRequests(url: string, { token, retryFor = 60_000, fetch: given }: ClientOptions) {
  const base = parseBase(url);
  // Looked up for each request, because tests and tracers replace the global function.
  const send = given ?? ((...request: [string, RequestInit]) => fetch(...request));

  /** Sends a request once. Throws a HoldfastError if the server refuses it or cannot be reached. */
  async function attempt(method: string, path: string, { body, key, headers, signal }: Sending): Promise<Response> {
    const init: RequestInit = {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(key !== undefined && { "idempotency-key": key }),
        ...headers,
      },
    };
    const response = await reading(signal, () => send(base + path, init));
    if (response.ok) return response;
    throw await refusal(response);
  }

  function unreachable(cause: unknown): HoldfastError {
    const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const message = `cannot reach the server at ${base}: ${messageOf(reason)}; check that it is running`;
    return new HoldfastError("server_failed", message, { cause });
  }

  /** Returns the function to call after a failed attempt: it waits before the next one, or throws the failure. */
  function createRetry(signal: AbortSignal | undefined): (thrown: unknown) => Promise<void> {
    const end = performance.now() + retryFor;
    let longest = shortestPause;
    return async (thrown) => {
      const pause = Math.random() * longest;
      // A conflict with the version in the request is final.
      const isPassing = isHoldfastError(thrown) && passing.has(thrown.code) && thrown.detail["seen"] === undefined;
      if (signal?.aborted || !isPassing || performance.now() + pause > end) throw thrown;
      longest = Math.min(2 * longest, longestPause);
      await new Promise((resolve) => setTimeout(resolve, pause));
    };
  }

  /** Reads a reply. A connection that breaks in the middle counts as an unreachable server. */
  async function reading<T>(signal: AbortSignal | undefined, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      if (signal?.aborted || isHoldfastError(cause)) throw cause;
      throw unreachable(cause);
    }
  }

  return {
    attempt,
    createRetry,
    reading,
    /** Sends a request until it is answered, and returns the JSON of the reply. */
    async ask<T>(method: string, path: string, sending: Sending = {}): Promise<T> {
      const { signal } = sending;
      const retry = createRetry(signal);
      for (;;) {
        try {
          const response = await attempt(method, path, sending);
          return await reading(signal, () => response.json() as Promise<T>);
        } catch (thrown) {
          await retry(thrown);
        }
      }
    },
  };
}

function parseBase(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    const message = `${JSON.stringify(url)} is not a valid server URL; use one such as http://127.0.0.1:8080`;
    throw new HoldfastError("invalid_option", message);
  }
  return (parsed.origin + parsed.pathname).replace(/\/+$/, "");
}

/** Reads the error that the server sent. A proxy between client and server may send an error in another format. */
async function refusal(response: Response): Promise<HoldfastError> {
  const { status } = response;
  const text = await response.text().catch(() => "");
  let error: { code?: unknown; message?: unknown; detail?: unknown } = {};
  try {
    error = Object(Object(JSON.parse(text)).error);
  } catch {
    // The body is not JSON, so Holdfast did not send it.
  }
  const { code, message, detail } = error;
  if (typeof code === "string" && Object.hasOwn(errorTable, code)) {
    return new HoldfastError(code as ErrorCode, String(message), { detail: Object(detail) });
  }
  const isOverloaded = status === 429 || status >= 502;
  return new HoldfastError(
    isOverloaded ? "server_failed" : "invalid_request",
    `the server answered ${status}: ${typeof message === "string" ? message : text.slice(0, 300)}`,
  );
}

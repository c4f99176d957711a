// One POST and its answer, on connections that are used again, and let go of at once when the caller cancels.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Agent } from "undici";
import { Exchange, type Limits } from "./exchange.ts";
import { cancelled } from "./fault.ts";

export interface Post {
  origin: string;
  /** With the query. */
  path: string;
  headers: Record<string, string>;
  body: string;
  limits: Limits;
  signal: AbortSignal | undefined;
}

/** With more sockets than this in a process, timers are seconds late. */
const mostConnections = 900;

let shared: Promise<Agent> | undefined;

// Loaded with the first request: it takes a tenth of a second, which no command that asks no model should wait for.
function client(): Promise<Agent> {
  shared ??= import("undici").then(({ Agent }) => {
    // Time-outs are kept here, for the whole answer. Idle connections do not keep the process.
    return new Agent({
      connections: mostConnections,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 30_000,
    });
  });
  return shared;
}

/** Sends a request and hands its answer to `read`. Whatever comes of that, the connection is let go of. */
export async function post<T>(request: Post, read: (answer: Exchange) => Promise<T>): Promise<T> {
  const { origin, path, headers, body, limits, signal } = request;
  const agent = await client();
  if (signal?.aborted) throw cancelled(signal);
  const exchange = new Exchange(limits);
  const cancel = (): void => exchange.stop(cancelled(signal));
  signal?.addEventListener("abort", cancel);
  try {
    agent.dispatch({ origin, path, method: "POST", headers, body }, exchange);
    await exchange.head();
    const result = await read(exchange);
    // A turn later the connection is free, and the next request need not open another.
    await nextTurn();
    return result;
  } finally {
    signal?.removeEventListener("abort", cancel);
    exchange.close();
  }
}

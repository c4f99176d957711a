// One POST and its answer: bounded in time and size, and let go of at once when the caller cancels.
import type { Agent } from "undici";
import { messageOf } from "../../core/errors.ts";
import { Exchange, type Head } from "./exchange.ts";
import { cancelled, Fault } from "./fault.ts";

export interface Post {
  origin: string;
  /** With the query. */
  path: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal | undefined;
  /** Milliseconds until the whole answer must be there. */
  timeout: number;
  /** Milliseconds between two parts of a streamed answer. */
  idle: number;
}

export interface Answer extends Head {
  /** The body as it comes. To be read once. */
  stream(): AsyncIterable<Uint8Array>;
  /** The whole body. */
  text(): Promise<string>;
  /** Nothing more is wanted: the server has a moment to end the answer, so that its connection can be used again. */
  finish(): void;
}

const moment = 250;

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
export async function post<T>(request: Post, read: (answer: Answer) => Promise<T>): Promise<T> {
  const { origin, path, headers, body, signal, timeout } = request;
  const agent = await client();
  if (signal?.aborted) throw cancelled(signal);
  const exchange = new Exchange();
  agent.dispatch({ origin, path, method: "POST", headers, body }, exchange);
  const late = (ms: number, what: string): NodeJS.Timeout =>
    setTimeout(() => exchange.stop(new Fault(what, { code: "model_timeout", again: true })), ms);
  const deadline = late(timeout, `did not answer within ${timeout} ms`);
  const cancel = (): void => exchange.stop(cancelled(signal));
  signal?.addEventListener("abort", cancel, { once: true });
  let idle: NodeJS.Timeout | undefined;
  let ending: NodeJS.Timeout | undefined;

  try {
    const head = await exchange.head().catch(unreached);
    return await read({
      ...head,
      async *stream() {
        for (let chunk; (chunk = await exchange.next().catch(cutOff)) !== undefined;) {
          // From the first part on: a server that is busy may send its headers long before it begins.
          idle ??= late(request.idle, `sent nothing for ${request.idle} ms in the middle of its answer`);
          idle.refresh();
          yield chunk;
        }
      },
      async text() {
        const chunks = await exchange.rest().catch(cutOff);
        return decoder.decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
      },
      finish() {
        ending ??= setTimeout(() => exchange.stop(unwanted), moment);
      },
    });
  } finally {
    clearTimeout(deadline);
    clearTimeout(idle);
    clearTimeout(ending);
    signal?.removeEventListener("abort", cancel);
    exchange.stop(unwanted);
  }
}

const decoder = new TextDecoder();

/** Nobody reads what is left of an answer. */
const unwanted = new Fault("was not waited for any longer");

function unreached(thrown: unknown): never {
  throw faultOf(thrown, "could not be reached");
}

function cutOff(thrown: unknown): never {
  throw faultOf(thrown, "closed the connection in the middle of its answer");
}

function faultOf(thrown: unknown, what: string): Fault {
  return thrown instanceof Fault ? thrown : new Fault(`${what}: ${connectionText(thrown)}`, { again: true });
}

// Only text is passed on: what a client library throws may hold what the server sent, and with it a key.
function connectionText(thrown: unknown): string {
  // One error for each address of a name that has several.
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return messageOf(thrown.errors[0]);
  return messageOf(thrown);
}

// One POST and its answer: bounded in time and size, and let go of at once when the caller cancels.
import type { Agent, Dispatcher } from "undici";
import { messageOf } from "../../core/errors.ts";
import { cancelled, Fault } from "./fault.ts";

export interface Post {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal: AbortSignal | undefined;
  /** Milliseconds until the whole answer must be there. */
  timeout: number;
  /** Milliseconds between two parts of a streamed answer. */
  idle: number;
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** The body as it comes. To be read once. */
  stream(): AsyncIterable<Uint8Array>;
  /** The whole body. */
  text(): Promise<string>;
  /** Nothing more is wanted: the server has a moment to end the answer, so that its connection can be used again. */
  finish(): void;
}

const largest = 64 * 1024 * 1024;
const moment = 250;

/** With more sockets than this in a process, timers are seconds late. */
const mostConnections = 900;

let shared: Promise<{ agent: Agent; request: typeof Dispatcher.prototype.request }> | undefined;

// Loaded with the first request: it takes a tenth of a second, which no command that asks no model should wait for.
function client(): NonNullable<typeof shared> {
  shared ??= import("undici").then(({ Agent }) => {
    // Time-outs are kept here, for the whole answer. Idle connections do not keep the process.
    const agent = new Agent({
      connections: mostConnections,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 4_000,
      keepAliveMaxTimeout: 30_000,
    });
    return { agent, request: agent.request.bind(agent) };
  });
  return shared;
}

/** Sends a request and hands its answer to `read`. Whatever comes of that, the connection is let go of. */
export async function post<T>(request: Post, read: (answer: Answer) => Promise<T>): Promise<T> {
  const { signal, timeout } = request;
  const stop = new AbortController();
  const late = (ms: number, what: string): NodeJS.Timeout =>
    setTimeout(() => stop.abort(new Fault(what, { code: "model_timeout", again: true })), ms);
  const deadline = late(timeout, `did not answer within ${timeout} ms`);
  const cancel = (): void => stop.abort(cancelled(signal));
  if (signal?.aborted) cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  let body: Dispatcher.ResponseData["body"] | undefined;
  let idle: NodeJS.Timeout | undefined;
  let ending: NodeJS.Timeout | undefined;

  async function* stream(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let size = 0;
    try {
      for await (const chunk of source) {
        size += chunk.length;
        if (size > largest) throw new Fault(`answered with more than ${largest / 1024 / 1024} MB`);
        idle?.refresh();
        yield chunk;
      }
    } catch (thrown) {
      throw faultOf(thrown, stop.signal, "closed the connection in the middle of its answer");
    }
  }

  try {
    const response = await send(request, stop.signal);
    body = response.body;
    // It is told to the reader. Here it only must not go unheard once nobody reads any more.
    body.on("error", () => undefined);
    const source = body;
    return await read({
      status: response.statusCode,
      headers: response.headers,
      stream: async function* () {
        for await (const chunk of stream(source)) {
          // From the first part on: a server that is busy may send its headers long before it begins.
          idle ??= late(request.idle, `sent nothing for ${request.idle} ms in the middle of its answer`);
          yield chunk;
        }
      },
      async text() {
        const chunks: Uint8Array[] = [];
        for await (const chunk of stream(source)) chunks.push(chunk);
        return new TextDecoder().decode(Buffer.concat(chunks));
      },
      finish() {
        ending ??= setTimeout(() => stop.abort(), moment);
      },
    });
  } finally {
    clearTimeout(deadline);
    clearTimeout(idle);
    clearTimeout(ending);
    signal?.removeEventListener("abort", cancel);
    body?.destroy();
  }
}

async function send({ url, headers, body }: Post, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
  const { origin, pathname, search } = new URL(url);
  const { request } = await client();
  try {
    return await request({ origin, path: pathname + search, method: "POST", headers, body, signal });
  } catch (thrown) {
    throw faultOf(thrown, signal, "could not be reached");
  }
}

function faultOf(thrown: unknown, signal: AbortSignal, what: string): Fault {
  if (signal.aborted && signal.reason instanceof Fault) return signal.reason;
  if (thrown instanceof Fault) return thrown;
  return new Fault(`${what}: ${connectionText(thrown)}`, { again: true });
}

// Only text is passed on: what a client library throws may hold what the server sent, and with it a key.
function connectionText(thrown: unknown): string {
  // One error for each address of a name that has several.
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return messageOf(thrown.errors[0]);
  return messageOf(thrown);
}

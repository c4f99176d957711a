// exchange(): sends one HTTP request, never twice, and reads its answer, with limits for time and size. It uses
// undici's dispatcher, because the streams and signals in `request()` take longer than sending and parsing.
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Agent, Dispatcher } from "undici";
import { messageOf } from "../core/errors.ts";
import { onAbort } from "./abort.ts";

interface Limits {
  /** Milliseconds within which the whole answer must arrive. */
  timeout: number;
  /** Extra milliseconds for each byte in the answer; none by default. */
  perByte?: number;
  /** The request is sent only if at least this many milliseconds are left when it gets a connection. Default 0. */
  least?: number;
  /** Maximum milliseconds between two parts of a streamed answer; two minutes by default. */
  idle?: number;
  /** Maximum size of an answer in bytes; 64 MB by default. */
  largest?: number;
}

export interface ExchangeRequest {
  origin: string;
  /** The path with the query. */
  path: string;
  method?: "GET" | "POST" | "PUT" | "DELETE";
  headers: Record<string, string>;
  body?: string | null;
  /** The connections to use. Default: shared connections. */
  dispatcher?: Dispatcher;
  limits: Limits;
  signal?: AbortSignal | undefined;
}

/** Why an answer is missing or incomplete. The message follows the server's name: "did not answer within 5 ms". */
export class ExchangeError extends Error {
  readonly kind: "timeout" | "connection" | "too_large";
  /** Whether part of the request may have been sent. */
  readonly isSent: boolean;
  /** The message of the connection error. */
  readonly reason: string | undefined;

  constructor(kind: ExchangeError["kind"], message: string, isSent = true, reason?: string) {
    super(message);
    this.kind = kind;
    this.isSent = isSent;
    this.reason = reason;
  }
}

export type { Answer };

const defaultIdle = 120_000;
const defaultLargest = 64 * 1024 * 1024;

/** The longest time that timers support. */
const longest = 2 ** 31 - 1;

/** Maximum number of bytes that wait for a slow reader. Above it, the server must wait. */
const mostWaiting = 256 * 1024;

/** Milliseconds that a server may take to finish an answer that is no longer read. */
const graceful = 250;

/**
 * Maximum number of connections to one server; more requests wait. A request's time limit includes that wait, so there
 * are more connections than rollouts that a server runs concurrently.
 */
const mostConnections = 4_096;

let shared: Promise<Agent> | undefined;

// undici is loaded with the first request, because loading takes a tenth of a second.
function client(): Promise<Agent> {
  shared ??= import("undici").then(({ Agent }) => {
    // Answers have their own time limits. Idle connections do not keep the process alive.
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

/** Sends a request, passes the answer to `read`, and releases the connection. Throws the signal's reason on abort. */
export async function exchange<T>(request: ExchangeRequest, read: (answer: Answer) => Promise<T>): Promise<T> {
  const { origin, path, method = "POST", headers, body = null, limits, signal } = request;
  const dispatcher = request.dispatcher ?? (await client());
  signal?.throwIfAborted();
  const answer = new Answer(limits);
  const stopListening = onAbort(signal, () => answer.stop(signal?.reason));
  try {
    dispatcher.dispatch({ origin, path, method, headers, body }, answer);
    await answer.head();
    const result = await read(answer);
    // Waits one turn of the event loop, until the connection is free; otherwise the next request opens a new one.
    await nextTurn();
    return result;
  } finally {
    stopListening();
    answer.close();
  }
}

const decoder = new TextDecoder();

/** One answer, for one reader. The dispatcher calls the methods that start with "on". */
class Answer implements Dispatcher.DispatchHandler {
  /** 0 until the head has arrived. */
  status = 0;
  headers: Record<string, string | string[] | undefined> = {};
  readonly #limits: Limits;
  readonly #chunks: Uint8Array[] = [];
  /** The deadline, as a `performance.now()` time. */
  #until: number;
  #deadline: NodeJS.Timeout | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #size = 0;
  #waiting = 0;
  #isOver = false;
  #takesAll = false;
  #stopped: unknown;
  #failure: ExchangeError | undefined;
  #wake: (() => void) | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#until = performance.now() + limits.timeout;
    this.#wait();
  }

  /** Stops the answer at its time limit. The limit moves while the answer arrives, so the timer may start again. */
  #wait(): void {
    const late = (): void => (this.#left() > 1 ? this.#wait() : this.stop(this.#late()));
    this.#deadline = setTimeout(late, Math.min(this.#left(), longest));
  }

  #left(): number {
    return this.#until - performance.now();
  }

  #late(): ExchangeError {
    const message = `did not answer within ${Math.round(this.#limits.timeout)} ms`;
    return new ExchangeError("timeout", message, this.#controller !== undefined);
  }

  /** Resolves when the status and the headers have arrived. */
  async head(): Promise<void> {
    while (this.status === 0 && this.#goesOn()) await this.#change();
    if (this.status === 0 && this.#failure) throw this.#failure;
  }

  /** Yields the parts of the body as they arrive. Call it only once. */
  async *stream(): AsyncGenerator<Uint8Array> {
    const { idle = defaultIdle } = this.#limits;
    const message = `sent nothing for ${idle} ms in the middle of its answer`;
    const late = (): void => this.stop(new ExchangeError("timeout", message));
    let timer: NodeJS.Timeout | undefined;
    try {
      for (let chunk; (chunk = await this.#next()) !== undefined;) {
        // The idle time starts at the first part of the body, because a busy server may send its headers long before.
        timer ??= setTimeout(late, idle);
        timer.refresh();
        yield chunk;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async bytes(): Promise<Uint8Array> {
    this.#takesAll = true;
    this.#controller?.resume();
    while (this.#goesOn()) await this.#change();
    if (this.#failure) throw this.#failure;
    return this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
  }

  /** The whole body as text. Invalid UTF-8 is replaced. */
  async text(): Promise<string> {
    return decoder.decode(await this.bytes());
  }

  /** Stops reading. The server gets a moment to finish, so that its connection can be reused. */
  finish(): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.stop(unread), graceful);
  }

  /** Releases the connection. */
  close(): void {
    clearTimeout(this.#deadline);
    this.stop(unread);
  }

  /** Closes the connection, unless the answer is complete. The reader gets the error immediately. */
  stop(error: unknown): void {
    if (this.#isOver || this.#stopped !== undefined) return;
    this.#stopped = error;
    this.#controller?.abort(error instanceof Error ? error : new Error("stopped"));
    this.#wake?.();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    const isLate = this.#left() < (this.#limits.least ?? 0);
    // Does not send a request that was stopped while it waited, has too little time left, or was already sent.
    if (this.#stopped === undefined && !isLate && !this.#controller) this.#controller = controller;
    else {
      controller.abort(unread);
      this.stop(isLate ? this.#late() : new ExchangeError("connection", "lost the connection"));
    }
  }

  onResponseStart(_: unknown, status: number, headers: Answer["headers"]): void {
    // Statuses below 200 are informational and precede the answer.
    if (status < 200) return;
    this.status = status;
    this.headers = headers;
    this.#wake?.();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#size += chunk.length;
    this.#waiting += chunk.length;
    const { largest = defaultLargest, perByte = 0 } = this.#limits;
    this.#until += chunk.length * perByte;
    if (this.#size > largest) {
      return this.stop(new ExchangeError("too_large", `sent an answer larger than ${largest / 1024 / 1024} MB`));
    }
    this.#chunks.push(chunk);
    if (this.#takesAll) return;
    if (this.#waiting > mostWaiting) controller.pause();
    this.#wake?.();
  }

  onResponseEnd(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  onResponseError(_: unknown, error: Error): void {
    const what = this.status === 0 ? "could not be reached" : "closed the connection in the middle of its answer";
    const reason = connectionText(error);
    this.#failure = new ExchangeError("connection", `${what}: ${reason}`, this.#controller !== undefined, reason);
    this.#wake?.();
  }

  /** Returns the next part of the body; undefined at its end. */
  async #next(): Promise<Uint8Array | undefined> {
    while (this.#chunks.length === 0 && this.#goesOn()) await this.#change();
    if (this.#stopped !== undefined) throw this.#stopped;
    const chunk = this.#chunks.shift();
    // Parts that arrived before the connection broke are still returned.
    if (!chunk && this.#failure) throw this.#failure;
    this.#waiting -= chunk?.length ?? 0;
    if (this.#chunks.length === 0) this.#controller?.resume();
    return chunk;
  }

  #goesOn(): boolean {
    if (this.#stopped !== undefined) throw this.#stopped;
    return !this.#isOver && !this.#failure;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}

const unread = new ExchangeError("connection", "sent an answer that was not read to its end");

// Returns only the message, because other fields of the error may contain data from the server, including a key.
function connectionText(thrown: unknown): string {
  // A host name with several addresses has one error per address. Returns the first.
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return messageOf(thrown.errors[0]);
  return messageOf(thrown);
}

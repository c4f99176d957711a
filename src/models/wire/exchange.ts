// One request on undici's dispatcher, and its answer as it comes, for one reader: bounded in time and size.
// Not by its `request()`: the stream and the signals of each answer would take longer than to send and parse it.
import type { Dispatcher } from "undici";
import { messageOf } from "../../core/errors.ts";
import { Fault } from "./fault.ts";

export interface Limits {
  /** Milliseconds until the whole answer must be there. */
  timeout: number;
  /** Milliseconds between two parts of a streamed answer. */
  idle: number;
}

const largest = 64 * 1024 * 1024;

/** So much may wait for a slow reader before the server has to. */
const mostWaiting = 256 * 1024;

/** What a server has to end an answer of which nothing more is wanted. */
const moment = 250;

const decoder = new TextDecoder();

/** Hand it to `dispatch()`, read from it, and close it. The methods that begin with "on" are the dispatcher's to call. */
export class Exchange implements Dispatcher.DispatchHandler {
  /** Of the answer, once there is a head. Before it, the status is 0. */
  status = 0;
  headers: Record<string, string | string[] | undefined> = {};
  readonly #limits: Limits;
  readonly #chunks: Uint8Array[] = [];
  #deadline: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #size = 0;
  #waiting = 0;
  #isOver = false;
  #takesAll = false;
  #stopped: Fault | undefined;
  #failure: Fault | undefined;
  #wake: (() => void) | undefined;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#deadline = setTimeout(() => this.stop(late(`did not answer within ${limits.timeout} ms`)), limits.timeout);
  }

  /** Resolves when the status and the headers are there. */
  async head(): Promise<void> {
    while (this.status === 0 && this.#goesOn()) await this.#change();
    if (this.status === 0 && this.#failure) throw this.#failure;
  }

  /** The body as it comes. To be read once. */
  async *stream(): AsyncGenerator<Uint8Array> {
    const { idle } = this.#limits;
    let timer: NodeJS.Timeout | undefined;
    try {
      for (let chunk; (chunk = await this.#next()) !== undefined;) {
        // From the first part on: a server that is busy may send its headers long before it begins.
        timer ??= setTimeout(() => this.stop(late(`sent nothing for ${idle} ms in the middle of its answer`)), idle);
        timer.refresh();
        yield chunk;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** The whole body. */
  async text(): Promise<string> {
    this.#takesAll = true;
    this.#controller?.resume();
    while (this.#goesOn()) await this.#change();
    if (this.#failure) throw this.#failure;
    return decoder.decode(this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks));
  }

  /** Nothing more is wanted: the server has a moment to end the answer, so that its connection can be used again. */
  finish(): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.stop(unwanted), moment);
  }

  /** Lets go of the connection, whatever came of the answer. */
  close(): void {
    clearTimeout(this.#deadline);
    this.stop(unwanted);
  }

  /** Closes the connection, unless the answer is over. Whoever reads is told the fault, at once. */
  stop(fault: Fault): void {
    if (this.#isOver || this.#stopped) return;
    this.#stopped = fault;
    this.#controller?.abort(fault);
    this.#wake?.();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It was given up while it waited for a connection.
    if (this.#stopped) controller.abort(this.#stopped);
  }

  onResponseStart(_: unknown, status: number, headers: Exchange["headers"]): void {
    // Below 200 it is not the answer yet.
    if (status < 200) return;
    this.status = status;
    this.headers = headers;
    this.#wake?.();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#size += chunk.length;
    this.#waiting += chunk.length;
    if (this.#size > largest) return this.stop(new Fault(`answered with more than ${largest / 1024 / 1024} MB`));
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
    this.#failure = new Fault(`${what}: ${connectionText(error)}`, { again: true });
    this.#wake?.();
  }

  /** The next part of the body, or undefined if there is none. */
  async #next(): Promise<Uint8Array | undefined> {
    while (this.#chunks.length === 0 && this.#goesOn()) await this.#change();
    if (this.#stopped) throw this.#stopped;
    const chunk = this.#chunks.shift();
    // What came before a connection broke is still given.
    if (!chunk && this.#failure) throw this.#failure;
    this.#waiting -= chunk?.length ?? 0;
    if (this.#chunks.length === 0) this.#controller?.resume();
    return chunk;
  }

  #goesOn(): boolean {
    if (this.#stopped) throw this.#stopped;
    return !this.#isOver && !this.#failure;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}

/** Nobody reads what is left of an answer. */
const unwanted = new Fault("was not waited for any longer");

const late = (what: string): Fault => new Fault(what, { code: "model_timeout", again: true });

// Only text is passed on: what a client library throws may hold what the server sent, and with it a key.
function connectionText(thrown: unknown): string {
  // One error for each address of a name that has several.
  if (thrown instanceof AggregateError && thrown.errors.length > 0) return messageOf(thrown.errors[0]);
  return messageOf(thrown);
}

// One request on undici's dispatcher, and its answer as it comes, for one reader.
// Not by its `request()`: the stream and the signals of each answer would take longer than to send and parse it.
import type { Dispatcher } from "undici";
import { Fault } from "./fault.ts";

export interface Head {
  status: number;
  headers: Record<string, string | string[] | undefined>;
}

const largest = 64 * 1024 * 1024;

/** So much may wait for a slow reader before the server has to. */
const mostWaiting = 256 * 1024;

/** Hand it to `dispatch()`, and read from it. The methods that begin with "on" are the dispatcher's to call. */
export class Exchange implements Dispatcher.DispatchHandler {
  #controller: Dispatcher.DispatchController | undefined;
  #head: Head | undefined;
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  #waiting = 0;
  #isOver = false;
  #takesAll = false;
  #stopped: Fault | undefined;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  async head(): Promise<Head> {
    while (!this.#head && this.#goesOn()) await this.#change();
    if (!this.#head && this.#failure) throw this.#failure;
    return this.#head as Head;
  }

  /** The next part of the body, or undefined if there is none. */
  async next(): Promise<Uint8Array | undefined> {
    while (this.#chunks.length === 0 && this.#goesOn()) await this.#change();
    if (this.#stopped) throw this.#stopped;
    const chunk = this.#chunks.shift();
    // What came before a connection broke is still given.
    if (!chunk && this.#failure) throw this.#failure;
    this.#waiting -= chunk?.length ?? 0;
    if (this.#chunks.length === 0) this.#controller?.resume();
    return chunk;
  }

  /** All that is left of the body. */
  async rest(): Promise<Uint8Array[]> {
    this.#takesAll = true;
    this.#controller?.resume();
    while (this.#goesOn()) await this.#change();
    if (this.#failure) throw this.#failure;
    return this.#chunks;
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

  onResponseStart(_: unknown, status: number, headers: Head["headers"]): void {
    // Below 200 it is not the answer yet.
    if (status >= 200) this.#head = { status, headers };
    this.#wake?.();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#size += chunk.length;
    this.#waiting += chunk.length;
    if (this.#size > largest) return this.stop(new Fault(`answered with more than ${largest / 1024 / 1024} MB`));
    this.#chunks.push(chunk);
    if (this.#waiting > mostWaiting && !this.#takesAll) controller.pause();
    this.#wake?.();
  }

  onResponseEnd(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  onResponseError(_: unknown, error: Error): void {
    this.#failure = error;
    this.#wake?.();
  }

  #goesOn(): boolean {
    if (this.#stopped) throw this.#stopped;
    return !this.#isOver && !this.#failure;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}

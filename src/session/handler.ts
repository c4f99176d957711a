// Runs an author's code: gives it its context, bounds its time, and passes on that it should stop.
import { readOnly } from "../core/draft.ts";
import type { Context } from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { randomStream } from "../core/random.ts";
import type { Updates } from "../core/update.ts";
import { cancelled } from "./exclusive.ts";
import type { Stops } from "./open-log.ts";

/** What makes one call of a handler: everything it can see that is not in the state. */
export interface HandlerOptions {
  session: string;
  at: number;
  timeout: number;
  /** Where its random numbers come from. */
  seed: number;
  draws: number;
  /** What runs, for messages. */
  what: string;
  /** The caller's wish to stop. */
  signal?: AbortSignal | undefined;
  /** Where its stop is registered while it runs. */
  stops?: Stops | undefined;
  /** Told what the handler threw, as it was thrown. */
  onThrown?: ((thrown: unknown) => void) | undefined;
}

/** One call of a handler, with the part of its `Context` that every kind of handler has. */
export class HandlerCall implements Context {
  readonly options: HandlerOptions;
  readonly session: string;
  lines: string[] | undefined = undefined;
  /** Made by a tool with a draft, for its first update. */
  updates: Updates | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  #numbers: (() => number) | undefined = undefined;
  #draws: number;

  constructor(options: HandlerOptions) {
    this.options = options;
    this.session = options.session;
    this.#draws = options.draws;
  }

  // Functions that handlers take out of their context. Most handlers use none, so they are made when asked for.
  get random(): () => number {
    return () => {
      this.#numbers ??= randomStream(this.options.seed, this.#draws);
      return this.#numbers();
    };
  }
  get now(): () => number {
    return () => this.options.at;
  }
  get log(): (line: string) => void {
    return (line) => {
      this.lines ??= [];
      this.lines.push(String(line));
    };
  }

  /** Starts the random numbers of another draw. */
  restart(draws: number): void {
    this.#draws = draws;
    this.#numbers = undefined;
  }

  /** Made when asked for: most handlers are over before anything could stop them. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  /** Gives what `call` gives. Rejects with a `Stopped` if time is over, the call is cancelled or the session ends first. */
  within<T>(call: () => T | PromiseLike<T>): T | Promise<T> {
    const result = call();
    return isPromiseLike(result) ? this.#bounded(result) : result;
  }

  #bounded<T>(result: PromiseLike<T>): Promise<T> {
    const { timeout, signal, stops, what } = this.options;
    return new Promise<T>((resolve, reject) => {
      const stop = (reason: HoldfastError): void => {
        settle();
        reject(new Stopped(reason));
        this.#controller ??= new AbortController();
        this.#controller.abort(reason);
      };
      const cancel = (): void => stop(cancelled(signal));
      const late = (): void => stop(new HoldfastError("tool_timeout", `${what} did not return within ${timeout} ms`));
      const timer = setTimeout(late, timeout);
      const settle = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", cancel);
        stops?.running?.delete(stop);
      };
      signal?.addEventListener("abort", cancel, { once: true });
      if (stops) {
        stops.running ??= new Set();
        stops.running.add(stop);
      }
      result.then(
        (value) => {
          settle();
          resolve(value);
        },
        (thrown: unknown) => {
          settle();
          reject(thrown);
        },
      );
      if (signal?.aborted) cancel();
    });
  }
}

function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** The call was stopped from outside. An author's code never throws this. */
export class Stopped {
  readonly reason: HoldfastError;
  constructor(reason: HoldfastError) {
    this.reason = reason;
  }
}

/** Runs a seed or a verify. A time-out is its failure; a cancelled call or a closed session is not. */
export async function withinTime<T>(handler: HandlerCall, call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return await handler.within(call);
  } catch (thrown) {
    if (!(thrown instanceof Stopped)) throw thrown;
    throw thrown.reason.code === "tool_timeout" ? new Error(thrown.reason.message) : thrown.reason;
  }
}

/** Shows a stored value to an author's code, which cannot change it. */
export function guarded(value: Json): unknown {
  return typeof value === "object" && value !== null ? readOnly(value) : value;
}

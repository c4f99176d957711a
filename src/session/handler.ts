// Runs an author's code: provides its context, limits its time, and passes on stop requests.
import { readOnly } from "../core/draft.ts";
import type { Context } from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Thrown } from "../core/event.ts";
import type { Json } from "../core/json.ts";
import { randomStream } from "../core/random.ts";
import type { Updates } from "../core/update.ts";
import { cancelled } from "./exclusive.ts";
import type { Stops } from "./open-log.ts";

/** The options for one handler call: all its inputs except the state. */
export interface HandlerOptions {
  session: string;
  at: number;
  /** Milliseconds that the handler may run. In an `Execution`: the default for tools that do not set a timeout. */
  timeout: number;
  /** The seed of the handler's random numbers, and the position in their stream at which it starts. */
  seed: number;
  draws: number;
  /** The handler's name in messages. */
  what: string;
  /** The caller's signal to stop. */
  signal?: AbortSignal | undefined;
  /** The stop functions of the session's running handlers. The handler adds its own while it runs. */
  stops?: Stops | undefined;
  /** Receives the handler's error, unchanged. */
  onThrown?: ((thrown: unknown) => void) | undefined;
}

/** One handler call, with the common part of its `Context`. */
export class HandlerCall implements Context {
  readonly options: HandlerOptions;
  readonly session: string;
  lines: string[] | undefined = undefined;
  /** The error from the author's code, if it threw. */
  thrown: Thrown | undefined = undefined;
  /** The updates of a tool that gets a draft; undefined until its first update. */
  updates: Updates | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  #numbers: (() => number) | undefined = undefined;
  #draws: number;

  constructor(options: HandlerOptions) {
    this.options = options;
    this.session = options.session;
    this.#draws = options.draws;
  }

  // Functions of the context. Most handlers use none, so they are created on demand.
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

  /** Restarts the random numbers at another position. */
  restart(draws: number): void {
    this.#draws = draws;
    this.#numbers = undefined;
  }

  /** The signal is created on demand, because most handlers end before anything could stop them. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  /** Returns the result of `call`. Rejects with `Stopped` on a timeout, a cancellation or the end of the session. */
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

/** Thrown for a call that was stopped from outside. An author's code never throws it. */
export class Stopped {
  readonly reason: HoldfastError;
  constructor(reason: HoldfastError) {
    this.reason = reason;
  }
}

/** Runs a seed or a verify. A timeout counts as its failure; a cancelled call or a closed session does not. */
export async function withinTime<T>(handler: HandlerCall, call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return await handler.within(call);
  } catch (thrown) {
    if (!(thrown instanceof Stopped)) throw thrown;
    throw thrown.reason.code === "tool_timeout" ? new Error(thrown.reason.message) : thrown.reason;
  }
}

/** Returns a read-only view of a stored value for an author's code. */
export function guarded(value: Json): unknown {
  return typeof value === "object" && value !== null ? readOnly(value) : value;
}

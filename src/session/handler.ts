// Runs an author's code: gives it its context, bounds its time, and passes on that it should stop.
import { readOnly } from "../core/draft.ts";
import type { Context } from "../core/environment.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { randomStream } from "../core/random.ts";
import { cancelled } from "./exclusive.ts";
import type { Stops } from "./open-log.ts";

/** What makes one run of a handler: everything it can see that is not in the state. */
export interface RunOptions {
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
}

/** One run of a handler. Its own `Context`; a handler gets this together with what its kind adds to it. */
export class Run implements Context {
  readonly options: RunOptions;
  readonly session: string;
  lines: string[] | undefined = undefined;
  #controller: AbortController | undefined = undefined;
  #numbers: (() => number) | undefined = undefined;
  #draws: number;

  constructor(options: RunOptions) {
    this.options = options;
    this.session = options.session;
    this.#draws = options.draws;
  }

  // Functions that handlers take out of their context. Made for those who ask, as most ask for none.
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

  /** Made only for those who ask: most handlers are over before anything could stop them. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    return this.#controller.signal;
  }

  /** What `call` gives. Rejects with a `Stopped` if it is out of time, cancelled, or the session ends before. */
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

/** A run that was stopped from outside. What the author's code throws is never this. */
export class Stopped {
  readonly reason: HoldfastError;
  constructor(reason: HoldfastError) {
    this.reason = reason;
  }
}

/** For a seed or a verify: out of time is a failure of theirs, to be cancelled or closed is not. */
export async function withinTime<T>(run: Run, call: () => T | PromiseLike<T>): Promise<T> {
  try {
    return await run.within(call);
  } catch (thrown) {
    if (!(thrown instanceof Stopped)) throw thrown;
    throw thrown.reason.code === "tool_timeout" ? new Error(thrown.reason.message) : thrown.reason;
  }
}

/** A stored value for an author's code, which must not change it. */
export function guarded(value: Json): unknown {
  return typeof value === "object" && value !== null ? readOnly(value) : value;
}

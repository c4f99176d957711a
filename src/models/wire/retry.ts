// Retries temporary failures, a limited number of times, with pauses.
import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { cancelled, Fault } from "./fault.ts";

/** The longest pause in milliseconds, even if the server asks for more. */
const longest = 60_000;
const first = 500;

/** Resolves after the given milliseconds; rejects if the signal aborts. */
export type Wait = (ms: number, signal: AbortSignal | undefined) => Promise<void>;

export const waitFor: Wait = (ms, signal) => delay(ms, undefined, { signal });

interface RetryOptions {
  attempts: number;
  signal: AbortSignal | undefined;
  wait: Wait;
  /** Returns the error of the last attempt. */
  fail(fault: Fault, attempts: number): Error;
}

export async function retrying<T>({ attempts, signal, wait, fail }: RetryOptions, attempt: () => Promise<T>) {
  // A thousand requests may share a signal. Each request removes its listeners, so Node need not warn about a leak.
  if (signal instanceof EventTarget) setMaxListeners(0, signal);
  for (let made = 1; ; made++) {
    let fault: Fault;
    try {
      if (signal?.aborted) throw cancelled(signal);
      return await attempt();
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown;
      fault = thrown;
    }
    if (!fault.again || made >= attempts) throw fail(fault, made);
    try {
      await wait(pause(made, fault.after), signal);
    } catch (thrown) {
      throw signal?.aborted ? fail(cancelled(signal), made) : thrown;
    }
  }
}

/** Returns the pause before the next attempt: the server's requested pause, otherwise twice the previous pause. */
export function pause(made: number, after: number | undefined, random: () => number = Math.random): number {
  // The pause is random, so that a thousand rollouts that were refused together do not retry together. It is never
  // shorter than the server requests.
  if (after !== undefined) return Math.min(after, longest) * (1 + random() / 4);
  return Math.min(first * 2 ** (made - 1), longest) * (0.5 + random() / 2);
}

/** Reads `retry-after-ms` or `Retry-After`, in milliseconds. */
export function retryAfter(headers: Record<string, string | string[] | undefined>, now = Date.now()) {
  const ms = numberIn(headers["retry-after-ms"]);
  if (ms !== undefined) return ms;
  const value = headers["retry-after"];
  const seconds = numberIn(value);
  if (seconds !== undefined) return seconds * 1_000;
  const date = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function numberIn(header: string | string[] | undefined): number | undefined {
  return typeof header === "string" && /^\s*\d+(\.\d+)?\s*$/.test(header) ? Number(header) : undefined;
}

// Exclusive access to a log within this process, first come first served, and snapshots for concurrent work.
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import type { Session } from "../core/session.ts";
import { onAbort } from "../io/abort.ts";
import type { OpenLog, Waiter } from "./open-log.ts";

/** Milliseconds. When the store does not answer, callers that have waited longer are refused. */
const longWait = 500;

/** Runs a function that has the log to itself. */
export async function exclusive<T>(log: OpenLog, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> {
  const waiting = acquire(log, signal);
  if (waiting) await waiting;
  try {
    return await run();
  } finally {
    release(log);
  }
}

/** Acquires the log. Returns a promise only if the log is busy, because most calls find it free. */
export function acquire(log: OpenLog, signal: AbortSignal | undefined): Promise<void> | undefined {
  if (log.busy) return wait(log, signal);
  log.busy = true;
  return undefined;
}

/** Passes the log to the next waiter. */
export function release(log: OpenLog): void {
  log.waited = 0;
  const first = log.waiting?.shift();
  if (first) first.next();
  else log.busy = false;
}

function wait(log: OpenLog, signal: AbortSignal | undefined): Promise<void> {
  log.waiting ??= [];
  const { waiting } = log;
  if (signal?.aborted) return Promise.reject(cancelled(signal));
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      waiting.splice(waiting.indexOf(waiter), 1);
      reject(cancelled(signal));
    };
    const waiter: Waiter = {
      since: Date.now(),
      next() {
        stopListening();
        resolve();
      },
      fail(error) {
        stopListening();
        reject(error);
      },
    };
    const stopListening = onAbort(signal, cancel);
    waiting.push(waiter);
  });
}

/**
 * Refuses old waiters when the store does not answer. Otherwise each of them would wait its full timeout, one after
 * another.
 */
export function rejectWaiters({ waiting }: OpenLog, thrown: unknown): void {
  if (!waiting || !isHoldfastError(thrown) || thrown.code !== "store_busy") return;
  const early = Date.now() - longWait;
  while (waiting[0] && waiting[0].since <= early) {
    const message = `the call was not begun, as one before it did not get through: ${thrown.message}`;
    waiting.shift()?.fail(new HoldfastError("store_busy", message));
  }
}

export function cancelled(signal: AbortSignal | undefined): HoldfastError {
  return new HoldfastError("call_cancelled", "the call was cancelled before it was committed", {
    cause: signal?.reason,
  });
}

/** Runs a function with a snapshot of the session that later commits do not change. */
export async function withSnapshot<T>(log: OpenLog, run: (session: Session) => Promise<T>): Promise<T> {
  log.holders++;
  // Each snapshot gets a new set: parts that were copied for an earlier snapshot now belong to this one.
  log.owned = new WeakSet();
  try {
    return await run({ ...log.session });
  } finally {
    if (--log.holders === 0) log.owned = undefined;
  }
}

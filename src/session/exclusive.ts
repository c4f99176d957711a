// Exclusive access to a log within this process, first come first served, and snapshots for concurrent work.
import { HoldfastError, isHoldfastError } from "../core/errors.ts";
import type { Session } from "../core/session.ts";
import { onAbort } from "../io/abort.ts";
import type { OpenLog, Waiter } from "./open-log.ts";

/** When the store does not answer, callers that have waited more than this many milliseconds are refused. */
const longWait = 500;

/** A call that acquires the log or asks the store more than once. */
export interface Caller {
  /** Milliseconds that the call has waited for the store so far. */
  waited: number;
}

/** Runs a function with exclusive access to the log. */
export async function exclusive<T>(
  log: OpenLog,
  signal: AbortSignal | undefined,
  run: () => Promise<T>,
  caller?: Caller,
): Promise<T> {
  const waiting = acquire(log, signal);
  if (waiting) await waiting;
  if (caller) log.waited += caller.waited;
  try {
    return await run();
  } finally {
    release(log, caller);
  }
}

/** Acquires the log. Returns a promise only if the log is busy, because most calls find it free. */
export function acquire(log: OpenLog, signal: AbortSignal | undefined): Promise<void> | undefined {
  if (log.busy) return wait(log, signal);
  log.busy = true;
  log.waited = log.loading;
  return undefined;
}

/** Passes the log to the next waiter. */
export function release(log: OpenLog, caller?: Caller): void {
  if (caller) caller.waited = log.waited;
  const first = log.waiting?.shift();
  log.waited = first ? waitedBy(first, log) : 0;
  if (first) first.next();
  else log.busy = false;
}

/**
 * Returns how long a waiter has waited for the store, in milliseconds. If it has waited mostly for other work, such as
 * an agent's turn, none of its time counts.
 */
function waitedBy(waiter: Waiter, log: OpenLog): number {
  const all = performance.now() - waiter.since;
  const stored = Math.min(log.storeTime - waiter.storeTime, all);
  return stored > all / 2 ? stored : 0;
}

function wait(log: OpenLog, signal: AbortSignal | undefined): Promise<void> {
  log.waiting ??= [];
  const { waiting, loading } = log;
  if (signal?.aborted) return Promise.reject(cancelled(signal));
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      waiting.splice(waiting.indexOf(waiter), 1);
      reject(cancelled(signal));
    };
    const waiter: Waiter = {
      since: performance.now() - loading,
      storeTime: log.storeTime - loading,
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
 * Refuses callers that have waited long, if the store does not answer. Otherwise, each of them would wait for the
 * store's full timeout, one after another.
 */
export function rejectWaiters({ waiting }: OpenLog, thrown: unknown): void {
  if (!waiting || !isHoldfastError(thrown) || thrown.code !== "store_busy") return;
  const early = performance.now() - longWait;
  while (waiting[0] && waiting[0].since <= early) {
    const message = `the call was not started, because an earlier call could not reach the store: ${thrown.message}`;
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
  // Starts with an empty set, because objects that were copied for an earlier snapshot are part of this snapshot.
  log.owned = new WeakSet();
  try {
    return await run({ ...log.session });
  } finally {
    if (--log.holders === 0) log.owned = undefined;
  }
}

// Calls a driver: within a time limit, with retries where they may help, and with failures that have a code.
import { setTimeout as delay } from "node:timers/promises";
import { HoldfastError, isHoldfastError, messageOf } from "../../core/errors.ts";
import type { Answer, Call, Driver, Fault } from "./driver.ts";

/** Milliseconds that a call may wait for the store, the minimum for its last step, and bytes per extra millisecond. */
const timeLimit = 5000;
const leastTimeLimit = 500;
const bytesPerMs = 1024;
/** Maximum random pause in milliseconds, before the first retry and before later retries. */
const [shortestPause, longestPause] = [5, 500];

/** A caller that is waiting for a driver. */
export interface Waiting extends Timed {
  /** The caller's request, once it was sent. */
  readonly call: Call | undefined;
}

/** "reads": the request may be repeated even if an earlier attempt may have succeeded. */
export type Effect = "reads" | "writes";

export type Attempts = ReturnType<typeof createAttempts>;

export function createAttempts({ name, fault, overtime }: Pick<Driver, "name" | "fault" | "overtime">) {
  const deadlines = createDeadlines<Waiting>(({ until, call }) => {
    if (overtime?.(call ?? { until })) return undefined;
    if (call?.reason !== undefined) return coded(call.reason);
    return new HoldfastError("store_busy", `${name} did not answer within its time limit`);
  });

  /** Returns the deadline of an operation that starts now. `waited`: how long its call has waited for the store. */
  function limitFor(bytes = 0, waited = 0): number {
    return performance.now() + Math.max(timeLimit - waited, leastTimeLimit) + bytes / bytesPerMs;
  }

  function faultOf(thrown: unknown): Fault {
    return fault?.(thrown) ?? { code: "store_failed", message: `failed: ${messageOf(thrown)}`, effect: "unknown" };
  }

  function coded(thrown: unknown): HoldfastError {
    if (isHoldfastError(thrown)) return thrown;
    const { code, message, cause } = faultOf(thrown);
    return new HoldfastError(code, `${name} ${message}`, { cause });
  }

  /** Waits for an answer until the deadline. */
  function within<T>(call: Call, answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { until: call.until, call, reject };
      deadlines.add(waiting);
      answer.then(
        (value) => {
          deadlines.remove(waiting);
          resolve(value);
        },
        (thrown: unknown) => {
          deadlines.remove(waiting);
          reject(thrown as Error);
        },
      );
    });
  }

  /** Calls the driver. Retries as long as a retry may help, is safe, and there is time left. */
  async function ask<T>(effect: Effect, call: Call, run: (call: Call) => Answer<T>): Promise<T> {
    try {
      const answer = run(call);
      return answer instanceof Promise ? await within(call, answer) : answer;
    } catch (thrown) {
      return askAgain(effect, call, run, thrown);
    }
  }

  /** Continues after a failed attempt. */
  async function askAgain<T>(effect: Effect, call: Call, run: (call: Call) => Answer<T>, thrown: unknown): Promise<T> {
    for (let [failure, longest] = [thrown, shortestPause]; ; longest = Math.min(2 * longest, longestPause)) {
      if (isHoldfastError(failure)) throw failure;
      call.reason = failure;
      const fault = faultOf(failure);
      const pause = Math.random() * (fault.pause ?? longest);
      const mayRepeat = fault.passing === true && (fault.effect === "nothing" || effect === "reads");
      if (!mayRepeat || performance.now() + pause > call.until) throw coded(failure);
      await delay(pause);
      try {
        const answer = run(call);
        return answer instanceof Promise ? await within(call, answer) : answer;
      } catch (again) {
        failure = again;
      }
    }
  }

  return { deadlines, limitFor, faultOf, coded, ask, askAgain, within };
}

/** An operation with a deadline, as a time of `performance.now()`. */
interface Timed {
  readonly until: number;
  reject(error: Error): void;
}

/** Milliseconds between two checks for late operations. */
const pace = 50;

/** Rejects late operations. `late` creates the error, or returns undefined if the operation may take longer. */
function createDeadlines<T extends Timed>(late: (timed: T) => Error | undefined) {
  const pending = new Set<T>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    const now = performance.now();
    for (const each of pending) {
      if (each.until > now) continue;
      const error = late(each);
      if (!error) continue;
      pending.delete(each);
      each.reject(error);
    }
    timer = pending.size > 0 ? setTimeout(look, pace) : undefined;
  }

  return {
    /** Rejects the operation at its deadline, unless it is removed before. */
    add(timed: T): void {
      pending.add(timed);
      timer ??= setTimeout(look, pace);
    },
    remove: (timed: T): void => void pending.delete(timed),
  };
}

// Limits of time for the calls of the Redis store. Thousands are under way at once, so they share one timer.

/** How long a verb may take, in milliseconds. */
export const patience = 4500;
/** How often it is looked whether a call is late, in milliseconds. */
const pace = 100;

interface Pending {
  until: number;
  /** Why it is not done yet, if that is known. */
  reason?: unknown;
  reject(error: Error): void;
}

/** `late` makes the error of a call that took too long, for a reason if one is known. */
export function createDeadlines(late: (reason: unknown) => Error) {
  // In the order of asking, which is nearly that of their ends.
  const pending = new Set<Pending>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    const now = performance.now();
    for (const each of pending) {
      if (each.until > now) break;
      pending.delete(each);
      each.reject(late(each.reason));
    }
    timer = pending.size > 0 ? setTimeout(look, pace) : undefined;
  }

  /** A promise that is rejected at some time, if it is not settled before. */
  function within<T>(
    until: number,
    run: (resolve: (value: T) => void, reject: (error: Error) => void, note: { reason?: unknown }) => void,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const each: Pending = { until, reject };
      pending.add(each);
      timer ??= setTimeout(look, pace);
      run(
        (value) => {
          pending.delete(each);
          resolve(value);
        },
        (error) => {
          pending.delete(each);
          reject(error);
        },
        each,
      );
    });
  }

  /** Rejects all that is not settled. */
  function stop(error: Error): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { reject } of pending) reject(error);
    pending.clear();
  }

  return { within, stop };
}

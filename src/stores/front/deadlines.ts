// The time limits of verbs. Thousands run at once, so they share one timer.

/** A verb with a deadline, as a time of `performance.now()`. */
export interface Timed {
  readonly until: number;
  reject(error: Error): void;
}

/** Milliseconds between two checks for late verbs. */
const pace = 50;

/** `late` creates the error of a late verb; undefined if the verb may take longer. */
export function createDeadlines<T extends Timed>(late: (timed: T) => Error | undefined) {
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
    /** Rejects the verb at its deadline, unless it is removed before. */
    add(timed: T): void {
      pending.add(timed);
      timer ??= setTimeout(look, pace);
    },
    remove: (timed: T): void => void pending.delete(timed),
  };
}

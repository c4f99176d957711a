// The time limits of verbs. Thousands run at once, so they share one timer.

/** Something that has to be done by a time of `performance.now()`. */
export interface Timed {
  readonly until: number;
  reject(error: Error): void;
}

/** How often to look for verbs that are late, in milliseconds. */
const pace = 50;

/** `late` makes the error of a verb whose time is up; undefined if it may take longer. */
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
    /** Rejects it when its time is up, unless it is removed before. */
    add(timed: T): void {
      pending.add(timed);
      timer ??= setTimeout(look, pace);
    },
    remove: (timed: T): void => void pending.delete(timed),
  };
}

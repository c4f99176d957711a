// createWork(): a work queue: follow-up items first (depth first), then the next item of the source.

/** One consumer calls `ready`, then `take`, and then `done` once per item. */
export function createWork<T>(source: AsyncIterator<T, void, undefined>) {
  /** A stack, because last in, first out keeps it short. */
  const stack: T[] = [];
  let [running, isOver] = [0, false];
  let wake: (() => void) | undefined;

  return {
    /** Returns whether there is a next item. Waits while running items may add more; false when all is done. */
    async ready(): Promise<boolean> {
      while (stack.length === 0) {
        if (!isOver) {
          const { value, done } = await source.next();
          // The item comes after follow-ups that were added in the meantime.
          if (!done) stack.unshift(value);
          else isOver = true;
        } else if (running === 0) return false;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      return true;
    },
    /** Takes the next item, after `ready` has resolved to true. Follow-ups added in the meantime come first. */
    take(): T {
      running++;
      return stack.pop() as T;
    },
    /** Ends a running item and adds its follow-ups. */
    done(more: T[]): void {
      running--;
      stack.push(...more.toReversed());
      wake?.();
    },
  };
}

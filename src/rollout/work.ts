// createWork(): a work queue: follow-up items first (depth first), then the next item of the source.

/** For one consumer: `ready`, then `take`, then `done` once per item. */
export function createWork<T>(source: AsyncIterator<T, void, undefined>) {
  /** Last in, first out, which keeps it short. */
  const stack: T[] = [];
  let [running, isOver] = [0, false];
  let wake: (() => void) | undefined;

  return {
    /**
     * Returns whether there is a next item. Waits while running items may add more; returns false when everything is
     * done.
     */
    async ready(): Promise<boolean> {
      while (stack.length === 0) {
        if (!isOver) {
          const { value, done } = await source.next();
          // Placed below follow-ups that were added in the meantime.
          if (!done) stack.unshift(value);
          else isOver = true;
        } else if (running === 0) return false;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      return true;
    },
    /** Takes the next item, after `ready`. Follow-ups added in the meantime come first. */
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

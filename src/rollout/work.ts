// createWork(): a work queue: follow-up items first (depth first), then the next item of the source.

export interface Work<T> {
  /**
   * Returns the next item; undefined when everything is done. Waits while running items may add more. Call `done` once
   * per item.
   */
  next(): Promise<T | undefined>;
  /** Ends a running item and adds its follow-ups. */
  done(more: T[]): void;
}

export function createWork<T>(source: AsyncIterator<T, void, undefined>): Work<T> {
  /** Last in, first out, which keeps it short. */
  const stack: T[] = [];
  let [underWay, isOver] = [0, false];
  let waiting: (() => void)[] = [];

  const begun = (value: T): T => {
    underWay++;
    return value;
  };

  return {
    async next() {
      for (;;) {
        const top = stack.pop();
        if (top !== undefined) return begun(top);
        if (isOver) {
          if (underWay === 0) return undefined;
          await new Promise<void>((resolve) => waiting.push(resolve));
          continue;
        }
        const { value, done } = await source.next();
        if (!done) return begun(value);
        isOver = true;
      }
    },
    done(more) {
      underWay--;
      stack.push(...more.toReversed());
      for (const wake of waiting) wake();
      waiting = [];
    },
  };
}

// createWork(): a work queue: follow-up items first (depth first), then the next item of the source.

export function createWork<T>(source: AsyncIterator<T, void, undefined>) {
  /** Last in, first out, which keeps it short. */
  const stack: T[] = [];
  let [underWay, isOver] = [0, false];
  let waiting: (() => void)[] = [];

  const begun = (value: T): T => {
    underWay++;
    return value;
  };

  return {
    /** Returns the next item; undefined when everything is done. Waits while running items may add more. */
    async next(): Promise<T | undefined> {
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
    /** Ends a running item and adds its follow-ups. Called once per item. */
    done(more: T[]): void {
      underWay--;
      stack.push(...more.toReversed());
      for (const wake of waiting) wake();
      waiting = [];
    },
  };
}

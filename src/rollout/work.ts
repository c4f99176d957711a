// What is to be done: what a source gives, and before that whatever came of what was done.

export interface Work<T> {
  /** The next one; undefined when all is done. Waits while what is under way may come to more. Each is `done` once. */
  next(): Promise<T | undefined>;
  /** One that was begun is over, and these came of it. */
  done(more: T[]): void;
}

export function createWork<T>(source: AsyncIterator<T, void, undefined>): Work<T> {
  /** The newest first: so there are never many. */
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

// createChannel(): passes values from running code to a generator's reader. A writer waits for the reader.

export function createChannel<T>() {
  /** An entry without a value is a call of `taken`, which waits until the reader has taken all earlier entries. */
  const waiting: { value?: T; taken: () => void }[] = [];
  let wake = (): void => undefined;
  let closed = false;
  /** Releases the writer of the value that the reader currently has. */
  let current = (): void => undefined;
  return {
    /** Resolves when the reader has taken the value and asks for the next one; resolves immediately after `close`. */
    put(value: T): Promise<void> {
      if (closed) return Promise.resolve();
      return new Promise((taken) => {
        waiting.push({ value, taken });
        wake();
      });
    },
    /** Adds a value without waiting for the reader. */
    drop(value: T): void {
      if (closed) return;
      waiting.push({ value, taken: () => undefined });
      wake();
    },
    /** Resolves when the reader has taken all values. */
    taken(): Promise<void> {
      if (closed || waiting.length === 0) return Promise.resolve();
      return new Promise((taken) => waiting.push({ taken }));
    },
    /** Yields the values until the work is done. */
    async *read(work: Promise<unknown>): AsyncGenerator<T, void, undefined> {
      let done = false;
      const finish = (): void => {
        done = true;
        wake();
      };
      work.then(finish, finish);
      for (;;) {
        const next = waiting.shift();
        if (next) {
          current = next.taken;
          try {
            if ("value" in next) yield next.value as T;
          } finally {
            // Runs even if the reader stops at this value, because the writer must not wait forever.
            next.taken();
          }
        } else if (done) return;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
            if (waiting.length > 0 || done) resolve();
          });
        }
      }
    },
    close(): void {
      closed = true;
      current();
      for (const { taken } of waiting.splice(0)) taken();
    },
  };
}

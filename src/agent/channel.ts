// createChannel(): passes values from running code to the reader of a generator. A writer waits for the reader.

export interface Channel<T> {
  /** Resolves when the reader has taken the value and asks for the next; at once after `close`. */
  put(value: T): Promise<void>;
  /** Adds a value without waiting. */
  drop(value: T): void;
  /** Resolves when the reader has taken all values. */
  taken(): Promise<void>;
  /** Yields the values until the work is done. */
  read(work: Promise<unknown>): AsyncGenerator<T, void, undefined>;
  /** Ends the reading. */
  close(): void;
}

export function createChannel<T>(): Channel<T> {
  /** An entry without a value waits until all before it are taken. */
  const waiting: { value?: T; taken: () => void }[] = [];
  let wake = (): void => undefined;
  let closed = false;
  /** Releases the writer of the value that the reader has now. */
  let current = (): void => undefined;
  return {
    put(value) {
      if (closed) return Promise.resolve();
      return new Promise((taken) => {
        waiting.push({ value, taken });
        wake();
      });
    },
    drop(value) {
      if (closed) return;
      waiting.push({ value, taken: () => undefined });
      wake();
    },
    taken() {
      if (closed || waiting.length === 0) return Promise.resolve();
      return new Promise((taken) => waiting.push({ taken }));
    },
    async *read(work) {
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
            // Also if the reader stops here: the writer must not wait forever.
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
    close() {
      closed = true;
      current();
      for (const { taken } of waiting.splice(0)) taken();
    },
  };
}

// From code that runs to a generator that is read: whoever puts something in waits until it was taken.

export interface Channel<T> {
  /** Resolves when the reader has taken it and asks for the next; at once if nobody reads any more. */
  put(value: T): Promise<void>;
  /** Puts something in without waiting. */
  drop(value: T): void;
  /** Resolves when all that was put in was taken. */
  taken(): Promise<void>;
  /** What is put in until the work is done. */
  read(work: Promise<unknown>): AsyncGenerator<T, void, undefined>;
  /** Nobody reads any more. */
  close(): void;
}

export function createChannel<T>(): Channel<T> {
  /** Without a value: somebody waits until all before it was taken. */
  const waiting: { value?: T; taken: () => void }[] = [];
  let wake = (): void => undefined;
  let closed = false;
  /** Lets go of who put in what the reader has now. */
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
            // Also where the reader stops here: whoever put it in must not wait for ever.
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

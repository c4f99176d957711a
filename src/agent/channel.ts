// From code that runs to a generator that is read: whoever puts something in waits until it was taken.

export interface Channel<T> {
  /** Resolves when the reader has taken it and asks for the next; at once if nobody reads any more. */
  put(value: T): Promise<void>;
  /** Puts something in without waiting. */
  drop(value: T): void;
  /** What is put in until the work is done. */
  read(work: Promise<unknown>): AsyncGenerator<T, void, undefined>;
  /** Nobody reads any more. */
  close(): void;
}

export function createChannel<T>(): Channel<T> {
  const waiting: { value: T; taken: () => void }[] = [];
  let wake = (): void => undefined;
  let closed = false;
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
          yield next.value;
          next.taken();
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
      for (const { taken } of waiting.splice(0)) taken();
    },
  };
}

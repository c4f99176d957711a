// createKeyedQueue(): runs each key's work one at a time, in the order it was queued. Keys do not wait for each other.

export type KeyedQueue = <T>(key: string, run: () => Promise<T>) => Promise<T>;

export function createKeyedQueue(): KeyedQueue {
  /** The newest unfinished work of each key. */
  const last = new Map<string, Promise<unknown>>();
  return async (key, run) => {
    const before = last.get(key);
    const work = (async () => {
      await before?.catch(() => undefined);
      return run();
    })();
    last.set(key, work);
    try {
      return await work;
    } finally {
      if (last.get(key) === work) last.delete(key);
    }
  };
}

// Works on many things at once, taking the next one when it is needed.

/** Runs `work` on everything that comes, so many at a time. What fails ends it, once all that had begun are done. */
export async function sideBySide<T>(
  source: AsyncIterator<T, void, undefined>,
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const stopped = new AbortController();
  const worker = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const { value, done } = await source.next();
      if (done) return;
      await work(value);
    }
  };
  const guarded = (): Promise<void> => worker().catch((thrown: unknown) => stopped.abort(thrown));
  await Promise.all(Array.from({ length: concurrency }, guarded));
  stopped.signal.throwIfAborted();
}

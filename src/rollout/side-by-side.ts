// sideBySide(): processes items concurrently, taking each on demand.

/** Runs `work` on every item, up to `concurrency` at once. A failure stops it after the running ones are done. */
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

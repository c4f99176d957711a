// Helpers for abort signals. They replace AbortSignal.any, which keeps the listeners of a long-lived signal in memory.

/** Calls `stop` when the signal aborts, immediately if it already has. Returns a function that stops listening. */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (!signal) return () => undefined;
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  return () => signal.removeEventListener("abort", stop);
}

/** Returns the result of the work, or throws `error()` once the signal is aborted. The work itself continues. */
export async function unlessAborted<T>(
  signal: AbortSignal | undefined,
  work: Promise<T>,
  error: () => unknown,
): Promise<T> {
  if (!signal) return work;
  let end = (): void => undefined;
  const cancelled = new Promise<never>((_, reject) => (end = onAbort(signal, () => reject(error()))));
  try {
    return await Promise.race([work, cancelled]);
  } finally {
    end();
  }
}

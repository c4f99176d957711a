// unlessAborted(): waits for work that may not look at its signal.

/** Returns the result of the work, or throws `error()` once the signal is aborted. The work continues unheard. */
export async function unlessAborted<T>(
  signal: AbortSignal | undefined,
  work: Promise<T>,
  error: () => unknown,
): Promise<T> {
  if (!signal) return work;
  let cancel = (): void => undefined;
  const cancelled = new Promise<never>((_, reject) => (cancel = () => reject(error())));
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  try {
    return await Promise.race([work, cancelled]);
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

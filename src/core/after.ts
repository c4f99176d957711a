// after(): continues with a value or a promise, without creating a promise for a plain value.

/** Calls `run` immediately unless the value is a promise. Most steps are synchronous and need no promise. */
export function after<T, R>(value: T | Promise<T>, run: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(run) : run(value);
}

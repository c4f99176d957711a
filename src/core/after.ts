// Continues with a value, or with a promise of it, and makes no promise of its own.

/** Calls `run` at once unless the value is a promise: a step that needs no promise costs none. */
export function after<T, R>(value: T | Promise<T>, run: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(run) : run(value);
}

// Continues with a value or a promise. Creates no promise for a plain value.

/** Calls `run` at once unless the value is a promise, because most steps need no promise. */
export function after<T, R>(value: T | Promise<T>, run: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(run) : run(value);
}

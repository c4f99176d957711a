// Splits long work into pieces, so that the process can serve other requests in between.

/** Milliseconds of work in one piece. */
const longest = 5;

const waiting: (() => void)[] = [];

/** Resolves in a turn of the event loop in which no other long work runs. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(release);
  });
}

function release(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(release);
}

/** Long work that can be interrupted at every `yield`. A step between two yields takes well below 5 ms. */
export type Steps<T> = Generator<void, T, undefined>;

/** Does all steps without a pause. */
export function doAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Does the steps in pieces of 5 ms, and lets the event loop run in between.
 *
 * @example
 * const sorted = await doInPieces(sortSteps(names, (a, b) => (a < b ? -1 : 1)));
 */
export async function doInPieces<T>(steps: Steps<T>): Promise<T> {
  for (let since = performance.now(); ;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() - since < longest) continue;
    await nextTurn();
    since = performance.now();
  }
}

/** Number of items that are sorted or merged in one step. */
const sortedAtOnce = 500;

/** Like `toSorted`, in pieces. */
export function* sortSteps<T>(items: readonly T[], compare: (a: T, b: T) => number): Steps<T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < items.length; at += sortedAtOnce) {
    runs.push(items.slice(at, at + sortedAtOnce).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergeSteps(runs[at] ?? [], runs[at + 1] ?? [], compare));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* mergeSteps<T>(left: T[], right: T[], compare: (a: T, b: T) => number): Steps<T[]> {
  yield;
  if (right.length === 0 || compare(left.at(-1) as T, right[0] as T) <= 0) return left.concat(right);
  const merged: T[] = [];
  for (let [a, b] = [0, 0]; a < left.length || b < right.length;) {
    const isLeft = b === right.length || (a < left.length && compare(left[a] as T, right[b] as T) <= 0);
    merged.push((isLeft ? left[a++] : right[b++]) as T);
    if (merged.length % sortedAtOnce === 0) yield;
  }
  return merged;
}

/** Lists with more items are written item by item. */
const shortList = 100;

/** Like `JSON.stringify` for plain data, in pieces. */
export function* stringifySteps(value: unknown): Steps<string> {
  yield;
  if (!isLong(value)) return JSON.stringify(value) ?? "null";
  const parts: string[] = [];
  if (Array.isArray(value)) {
    for (const item of value) parts.push(yield* stringifySteps(item));
    return `[${parts.join()}]`;
  }
  for (const [key, member] of Object.entries(value as object) as [string, unknown][]) {
    if (member !== undefined) parts.push(`${JSON.stringify(key)}:${yield* stringifySteps(member)}`);
  }
  return `{${parts.join()}}`;
}

/** Returns whether a value has a long list in its first four levels. A deeper search would cost as much as writing. */
function isLong(value: unknown, depth = 4): boolean {
  if (typeof value !== "object" || value === null || depth === 0) return false;
  if (Array.isArray(value)) return value.length > shortList || value.some((item) => isLong(item, depth - 1));
  return Object.values(value).some((member) => isLong(member, depth - 1));
}

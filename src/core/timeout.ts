// What a time-out may be: what a timer can wait for.

/** Whether a timer can wait that long. Beyond it, and for Infinity, Node's fire at once. */
export function isTimeout(ms: unknown): boolean {
  return typeof ms === "number" && ms > 0 && ms <= 2 ** 31 - 1;
}

export const timeoutRange = "a number of milliseconds above 0, and at most 2,147,483,647 (24 days)";

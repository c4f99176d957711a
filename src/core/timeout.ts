// The valid range of a timeout: the range of a timer.

/** Tells whether a timer can wait that long. Beyond it, and for Infinity, Node's timers fire at once. */
export function isTimeout(ms: unknown): boolean {
  return typeof ms === "number" && ms > 0 && ms <= 2 ** 31 - 1;
}

export const timeoutRange = "a number of milliseconds above 0, and at most 2,147,483,647 (24 days)";

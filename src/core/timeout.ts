// The valid range for a timeout, which is the range that a timer supports.

/** Returns whether a timer can wait that long. For longer times and for Infinity, Node's timers fire immediately. */
export function isTimeout(ms: unknown): boolean {
  return typeof ms === "number" && ms > 0 && ms <= 2 ** 31 - 1;
}

export const timeoutRange = "a number of milliseconds greater than 0 and at most 2,147,483,647 (24 days)";

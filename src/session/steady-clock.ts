// createSteadyClock(): the wall clock without its jumps, for limits that end sessions for good.

/** Milliseconds by which a wall clock may be corrected at once. */
const correction = 1_000;

/** Milliseconds for which a jump must last before it is accepted. */
const lasting = 60_000;

/**
 * Returns the time. After the wall clock has jumped ahead or back, time continues as before the jump for a minute of
 * the monotonic clock. So only a clock that stays wrong for a minute can end a session.
 */
export function createSteadyClock(): () => number {
  let offset = Date.now() - performance.now();
  let jump: { offset: number; since: number } | undefined;
  return () => {
    const now = performance.now();
    const seen = Date.now() - now;
    if (Math.abs(seen - offset) <= correction) {
      [offset, jump] = [seen, undefined];
    } else if (!jump || Math.abs(seen - jump.offset) > correction) {
      jump = { offset: seen, since: now };
    } else if (now - jump.since >= lasting) {
      [offset, jump] = [seen, undefined];
    }
    return now + offset;
  };
}

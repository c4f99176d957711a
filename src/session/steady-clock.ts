// createSteadyClock(): the wall clock without its jumps, for limits that end sessions for good.

/** Milliseconds by which a wall clock may be corrected at once. */
const correction = 1_000;

/** Milliseconds for which a jump must last before it is believed. */
const lasting = 60_000;

/**
 * Returns the time. A wall clock that jumps, ahead or back, is believed after a minute by the monotonic clock: until then
 * time passes as before the jump. So a wrong clock must last, and not only occur, to end a session.
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

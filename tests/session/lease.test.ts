// Leases by themselves: when a turn may be taken over, when its holder renews, and when it must prove that it holds the turn.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Session } from "../../src/core/session.ts";
import { createLeases } from "../../src/session/lease.ts";
import type { OpenLog } from "../../src/session/open-log.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A log whose turn somebody holds. */
function logOf(owner: string | undefined, version = 5, lapsesAfter = 300, id = "s"): OpenLog {
  const turn = { invocation: "i", agent: "a", began: 2, ...(owner !== undefined && { lease: { owner, lapsesAfter } }) };
  return { id, session: { version, conversation: { version, turn } } as unknown as Session } as OpenLog;
}

test("a turn may be taken over once its log has stood still for its lease, by the clock of the process that waits", () => {
  const { remaining, refusal } = createLeases();
  expect(remaining(logOf("other"))).toBe(300);
  vi.advanceTimersByTime(200);
  expect(remaining(logOf("other"))).toBe(100);
  // A new version shows that the holder is alive.
  expect(remaining(logOf("other", 6))).toBe(300);
  vi.advanceTimersByTime(299);
  expect(remaining(logOf("other", 6))).toBe(1);
  expect(refusal(logOf("other", 6))).toMatchObject({ code: "session_busy", detail: { lapsesIn: 1 } });
  vi.advanceTimersByTime(1);
  expect(remaining(logOf("other", 6))).toBe(0);
  expect(refusal(logOf("other", 6))).toBeUndefined();
  // Another holder starts it anew.
  expect(remaining(logOf("third", 6))).toBe(300);
});

test("the wall clock does not matter", () => {
  const { remaining } = createLeases();
  expect(remaining(logOf("other"))).toBe(300);
  vi.setSystemTime(Date.now() + 86_400_000);
  expect(remaining(logOf("other"))).toBe(300);
});

test("a turn without a lease, or whose run has left this engine, may be taken over at once", () => {
  const { remaining, hold } = createLeases(600);
  expect(remaining(logOf(undefined))).toBe(0);
  const held = hold(async () => undefined);
  expect(held.lease.lapsesAfter).toBe(600);
  expect(held.isIn(logOf(held.lease.owner).session)).toBe(true);
  expect(held.isIn(logOf("other").session)).toBe(false);
  expect(remaining(logOf(held.lease.owner))).toBe(300);
  held.end();
  expect(remaining(logOf(held.lease.owner))).toBe(0);
});

test("watches so many sessions at once, and forgets the one it looked at first", () => {
  const { remaining } = createLeases();
  remaining(logOf("other", 5, 300, "first"));
  remaining(logOf("other", 5, 300, "second"));
  vi.advanceTimersByTime(100);
  for (let n = 0; n < 9_999; n++) remaining(logOf("other", 5, 300, `${n}`));
  expect(remaining(logOf("other", 5, 300, "second"))).toBe(200);
  expect(remaining(logOf("other", 5, 300, "first"))).toBe(300);
});

test("a holder proves that it holds the turn before the last sixth of its lease", () => {
  const held = createLeases(9_000).hold(async () => undefined);
  const sent = performance.now();
  vi.advanceTimersByTime(7_499);
  expect(held.isFresh()).toBe(true);
  vi.advanceTimersByTime(1);
  expect(held.isFresh()).toBe(false);
  // A commit counts from when it was sent.
  held.confirm(sent + 1_000);
  expect(held.isFresh()).toBe(true);
  vi.advanceTimersByTime(1_000);
  expect(held.isFresh()).toBe(false);
  held.end();
});

test("a holder renews after a third to half of its lease without a commit, once at a time, until it ends", async () => {
  const sent: ((value?: unknown) => void)[] = [];
  const renew = vi.fn(() => new Promise<void>((resolve) => sent.push(resolve as () => void)));
  const held = createLeases(900).hold(renew);
  await vi.advanceTimersByTimeAsync(300);
  expect(renew).toHaveBeenCalledTimes(1);
  // The first one is not answered yet.
  await vi.advanceTimersByTimeAsync(600);
  expect(renew).toHaveBeenCalledTimes(1);
  sent[0]?.();
  // A commit just after the holder has looked: it renews before half of the lease has passed.
  held.confirm(performance.now() + 10);
  await vi.advanceTimersByTimeAsync(300);
  expect(renew).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(150);
  expect(renew).toHaveBeenCalledTimes(2);
  held.end();
  sent[1]?.();
  await vi.advanceTimersByTimeAsync(3_000);
  expect(renew).toHaveBeenCalledTimes(2);
});

test("a lease that no timer can wait for is refused", () => {
  for (const lease of [0, -1, Infinity, Number.NaN]) {
    expect(() => createLeases(lease)).toThrow(expect.objectContaining({ code: "invalid_option" }));
  }
});

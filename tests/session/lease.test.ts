// Leases: when a turn may be taken over, and when its owner must stop.
import { expect, test, vi } from "vitest";
import { createOwners, createOwnership, createWatch } from "../../src/session/lease.ts";

const turn = (owner: string, lapsesAfter = 300) => ({
  invocation: "i",
  agent: "a",
  began: 2,
  lease: { owner, lapsesAfter },
});

test("a turn may be taken over once its log has stood still for a lease, by the observer's own clock", () => {
  let now = 0;
  const watch = createWatch(createOwners(), () => now);
  const recent = Date.now();
  expect(watch.remaining("s", 5, turn("other"), recent)).toBe(300);
  now = 200;
  expect(watch.remaining("s", 5, turn("other"), recent)).toBe(100);
  // A new version shows that the owner is alive.
  expect(watch.remaining("s", 6, turn("other"), recent)).toBe(300);
  now = 499;
  expect(watch.remaining("s", 6, turn("other"), recent)).toBe(1);
  now = 500;
  expect(watch.remaining("s", 6, turn("other"), recent)).toBe(0);
});

test("a turn without a lease, or whose owner ended in this engine, or that is long silent, may be taken over at once", () => {
  const owners = createOwners();
  const watch = createWatch(owners, () => 0);
  const owner = owners.begin();
  const { lease: _, ...free } = turn("x");
  expect(watch.remaining("s", 5, free, Date.now())).toBe(0);
  expect(watch.remaining("s", 5, turn(owner), Date.now())).toBe(300);
  owners.end(owner);
  expect(watch.remaining("s", 5, turn(owner), Date.now())).toBe(0);
  expect(watch.remaining("t", 5, turn("other"), Date.now() - 3_001)).toBe(0);
});

test("an owner must not begin an effect once its newest commit was sent almost a lease ago", () => {
  let now = 0;
  const lease = { owner: "o", lapsesAfter: 9_000 };
  const ownership = createOwnership({ session: "s", lease, renew: async () => undefined, clock: () => now });
  now = 7_999;
  ownership.assertOwner();
  now = 8_000;
  expect(() => ownership.assertOwner()).toThrow(expect.objectContaining({ code: "turn_lost" }));
  ownership.confirm(7_000);
  ownership.assertOwner();
  ownership.end();
});

test("an owner renews after a third of its lease without a commit, and not while it commits", async () => {
  vi.useFakeTimers();
  try {
    let now = 0;
    const renew = vi.fn(async () => undefined);
    const lease = { owner: "o", lapsesAfter: 900 };
    const ownership = createOwnership({ session: "s", lease, renew, clock: () => now });
    const pass = async (milliseconds: number): Promise<void> => {
      now += milliseconds;
      await vi.advanceTimersByTimeAsync(milliseconds);
    };
    await pass(300);
    expect(renew).toHaveBeenCalledTimes(1);
    ownership.confirm(now);
    await pass(200);
    ownership.confirm(now);
    await pass(100);
    expect(renew).toHaveBeenCalledTimes(1);
    await pass(300);
    expect(renew).toHaveBeenCalledTimes(2);
    ownership.end();
    await pass(3_000);
    expect(renew).toHaveBeenCalledTimes(2);
  } finally {
    vi.useRealTimers();
  }
});

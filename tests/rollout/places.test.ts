// Places for episodes: never more than the limit, and in turn between requests.
import { expect, test } from "vitest";
import { createPlaces } from "../../src/rollout/places.ts";

const never = new AbortController().signal;

test("a free place goes to the request that has waited longest", async () => {
  const places = createPlaces(2);
  const [a, b] = [places.lane(10), places.lane(10)];
  expect(await a.enter(never)).toBe(true);
  expect(await a.enter(never)).toBe(true);
  const order: string[] = [];
  const wait = (name: string, lane: typeof a) => lane.enter(never).then(() => void order.push(name));
  const [third, first] = [wait("a", a), wait("b", b)];
  a.leave();
  await third;
  a.leave();
  await first;
  expect(order).toEqual(["a", "b"]);
});

test("a request that has all its places lets others pass, and an aborted wait takes no place", async () => {
  const places = createPlaces(2);
  const [narrow, wide] = [places.lane(1), places.lane(2)];
  expect(await narrow.enter(never)).toBe(true);
  const stopping = new AbortController();
  const waiting = narrow.enter(stopping.signal);
  expect(await wide.enter(never)).toBe(true);
  stopping.abort();
  expect(await waiting).toBe(false);
  expect(await narrow.enter(stopping.signal)).toBe(false);
  const next = wide.enter(never);
  narrow.leave();
  expect(await next).toBe(true);
});

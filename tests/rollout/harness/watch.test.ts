// The memory of a harness's failures stays small, however many and however large they are.
import { HoldfastError, type Sessions } from "holdfast";
import { expect, test } from "vitest";
import { watchedSessions, type Watched } from "../../../src/rollout/harness/watch.ts";

function watching() {
  let isFailing = true;
  const watched: Watched = { requests: new Map(), calls: new Map(), running: new Set() };
  const act = async () => {
    if (isFailing) throw new HoldfastError("store_busy", "it is locked");
    return { ok: true, output: 1 };
  };
  const sessions = watchedSessions({ call: act, askModel: act } as unknown as Sessions, () => watched);
  const text = (number: number): string => `${number} ${"x".repeat(1_000)}`;
  return {
    watched,
    recover: () => void (isFailing = false),
    async send(number: number): Promise<void> {
      const input = [{ type: "message" as const, role: "user" as const, content: text(number) }];
      const options = { model: "m", respond: () => Promise.reject(new Error()) };
      await sessions.askModel("s", { input }, options).catch(() => undefined);
      await sessions.call("s", "add", { text: text(number) }).catch(() => undefined);
    },
  };
}

test("a failure is forgotten when the same request succeeds", async () => {
  const { watched, recover, send } = watching();
  await send(1);
  await send(2);
  recover();
  await send(1);
  expect([watched.requests.size, watched.calls.size]).toEqual([1, 1]);
  await send(2);
  expect([watched.requests.size, watched.calls.size]).toEqual([0, 0]);
});

test("GROWTH: 3,000 failed requests of 1,000 characters take little memory, and no failure becomes a success", async () => {
  const { watched, recover, send } = watching();
  for (let number = 0; number < 3_000; number++) await send(number);
  for (const failures of [watched.requests, watched.calls]) {
    expect(failures.size).toBeLessThan(1_100);
    expect(Math.max(...[...failures.keys()].map((key) => key.length))).toBeLessThan(100);
  }
  recover();
  for (let number = 0; number < 2_000; number++) await send(number);
  expect([watched.requests.size, watched.calls.size]).toEqual([1, 1]);
});

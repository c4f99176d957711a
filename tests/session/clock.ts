// A clock for the tests of limits: time passes for the engine, and not for the test.
import { onTestFinished, vi } from "vitest";

/** Stops the engine's clock until the test ends; `pass` advances it. */
export function clock(): { pass(ms: number): void } {
  vi.useFakeTimers({ toFake: ["Date"], now: 1_700_000_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  return { pass: (ms) => vi.setSystemTime(Date.now() + ms) };
}

// A clock for the tests of limits: time passes for the engine, and not for the test.
import { onTestFinished, vi } from "vitest";

/** Stops the engine's clocks until the test ends. `pass` advances both, `jump` only the wall clock. */
export function clock(): { pass(ms: number): void; jump(ms: number): void } {
  vi.useFakeTimers({ toFake: ["Date", "performance"], now: 1_700_000_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  return {
    pass: (ms) => void vi.advanceTimersByTime(ms),
    jump: (ms) => void vi.setSystemTime(Date.now() + ms),
  };
}

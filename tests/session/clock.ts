// A clock for the tests of limits: time passes for the engine, and not for the test.
import { onTestFinished, vi } from "vitest";

/** Stops the engine's clocks until the test ends. `pass` advances both, `jump` only the wall clock. */
export function clock(): { pass(ms: number): void; jump(ms: number): void } {
  let now = performance.now();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  const monotonic = vi.spyOn(performance, "now").mockImplementation(() => now);
  onTestFinished(() => {
    vi.useRealTimers();
    monotonic.mockRestore();
  });
  const jump = (ms: number): void => void vi.setSystemTime(Date.now() + ms);
  return {
    pass(ms) {
      now += ms;
      jump(ms);
    },
    jump,
  };
}

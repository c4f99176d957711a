// How long an episode is played: what ends it early, and what is said about it then.
import type { RolloutFailure } from "../../core/rollout.ts";
import { failureBy } from "./failure.ts";

/** How long an episode goes on: until it is cancelled, is out of time, or something was lost that nobody can make up for. */
export interface Patience {
  signal: AbortSignal;
  lose(thrown: unknown): void;
  /** Ends it here, without a failure. */
  rest(): void;
  /** Why it does not go on. */
  failure(): RolloutFailure | undefined;
  end(): void;
}

/** Timers take no more. */
const longest = 2 ** 31 - 1;

// Not AbortSignal.any and AbortSignal.timeout: of those, all that ever listened to a long signal is kept.
export function createPatience(signal: AbortSignal, timeout: number | undefined): Patience {
  const stopping = new AbortController();
  let failure: RolloutFailure | undefined;
  const stop = (why: RolloutFailure): void => {
    failure ??= why;
    stopping.abort();
  };
  const cancel = (): void => stop({ kind: "internal", reason: "it was cancelled" });
  const late = (): void => stop({ kind: "timeout", reason: `the episode took more than ${timeout} ms` });
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  const timer = timeout === undefined ? undefined : setTimeout(late, Math.min(timeout, longest));
  return {
    signal: stopping.signal,
    lose: (thrown) => stop(failureBy(thrown)),
    rest: () => stopping.abort(),
    failure: () => failure,
    end() {
      clearTimeout(timer);
      signal.removeEventListener("abort", cancel);
    },
  };
}

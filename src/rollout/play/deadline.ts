// createDeadline(): ends an episode early, by cancellation, time limit or a lost answer, and remembers why.
import type { RolloutFailure } from "../../core/rollout.ts";
import { onAbort } from "../../io/abort.ts";
import { failureFromError } from "./failure.ts";

/** Ends an episode when it is cancelled, reaches its time limit, or loses an answer permanently. */
export interface RolloutDeadline {
  signal: AbortSignal;
  lose(thrown: unknown): void;
  /** Returns why the episode stopped. */
  failure(): RolloutFailure | undefined;
  end(): void;
}

/** The maximum delay of a timer. */
const longest = 2 ** 31 - 1;

export function createDeadline(signal: AbortSignal, timeout: number | undefined): RolloutDeadline {
  const stopping = new AbortController();
  let failure: RolloutFailure | undefined;
  const stop = (why: RolloutFailure): void => {
    failure ??= why;
    stopping.abort();
  };
  const cancel = (): void => stop({ kind: "internal", reason: "the episode was cancelled" });
  const late = (): void => stop({ kind: "timeout", reason: `the episode took more than ${timeout} ms` });
  const stopListening = onAbort(signal, cancel);
  const timer = timeout === undefined ? undefined : setTimeout(late, Math.min(timeout, longest));
  return {
    signal: stopping.signal,
    lose: (thrown) => stop(failureFromError(thrown)),
    failure: () => failure,
    end() {
      clearTimeout(timer);
      stopListening();
    },
  };
}

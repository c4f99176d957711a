// A rollout that a worker is running: how to end it early, and how long that may take.
import { setTimeout as delay } from "node:timers/promises";
import { onAbort } from "../io/abort.ts";
import { failedRollout, type Play, type Played, type Rollout } from "../core/rollout.ts";

export interface Playing {
  readonly signal: AbortSignal;
  /** True once another worker holds the rollout. */
  readonly isLost: boolean;
  /** Settles when `end` has been called. */
  readonly ended: Promise<void>;
  /** Renews the lock. Ends the rollout if the lock is lost. */
  renew(): Promise<void>;
  /** Ends the rollout because another worker holds it. */
  lose(): void;
  /** Ends the rollout because this worker stops. */
  stop(): void;
  /** True once the rollout's collection is over. */
  readonly isOver: boolean;
  /** Ends the rollout because its collection is over. */
  endOver(): void;
  end(): void;
}

/** Creates the controls of a running rollout. `extend` prolongs the lock and returns 0 if that is impossible. */
export function createPlaying(extend: () => Promise<number>): Playing {
  const stopping = new AbortController();
  let isLost = false;
  let isOver = false;
  let isRenewing = false;
  const lose = (): void => {
    isLost = true;
    stopping.abort();
  };
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => (end = resolve));
  return {
    signal: stopping.signal,
    ended,
    end,
    lose,
    get isLost() {
      return isLost;
    },
    async renew() {
      // An earlier renewal is still waiting for the server.
      if (isRenewing) return;
      isRenewing = true;
      try {
        if ((await extend()) === 0) lose();
      } finally {
        isRenewing = false;
      }
    },
    stop: () => stopping.abort(),
    get isOver() {
      return isOver;
    },
    endOver() {
      isOver = true;
      stopping.abort();
    },
  };
}

/** Milliseconds that a stopped rollout may take to end. */
export const mostStopping = 2000;

/** Runs a rollout. After an abort it waits at most `mostStopping`, because a tool may ignore its signal. */
export async function playUntil(play: Play, rollout: Rollout, signal: AbortSignal): Promise<Played> {
  let stopListening = (): void => undefined;
  const late = new Promise<Played>((resolve) => {
    const cancelled = failedRollout(rollout.session, "internal", "cancelled");
    stopListening = onAbort(signal, () => setTimeout(() => resolve(cancelled), mostStopping).unref());
  });
  try {
    return await Promise.race([play(rollout, signal), late]);
  } finally {
    stopListening();
  }
}

/** Waits for a promise, at most for the given time. */
export async function orAfter(work: Promise<unknown>, milliseconds: number): Promise<void> {
  await Promise.race([work.catch(() => undefined), delay(milliseconds, undefined, { ref: false })]);
}

// A rollout that a worker is playing: what ends it early, and how long that may take.
import { setTimeout as delay } from "node:timers/promises";
import type { Play, Played, Rollout } from "../core/rollout.ts";

export interface Playing {
  readonly signal: AbortSignal;
  /** Whether it is another worker's by now. */
  readonly isLost: boolean;
  /** Settles when `end` was called. */
  readonly ended: Promise<void>;
  /** Says that it is still played here. If it is not this worker's any more, it ends. */
  renew(): Promise<void>;
  /** Ends it, as it is another worker's. */
  lose(): void;
  /** Ends it, as the worker ends. */
  stop(): void;
  end(): void;
}

/** `extend` holds it for some time more, and gives 0 if that cannot be. */
export function createPlaying(extend: () => Promise<number>): Playing {
  const stopping = new AbortController();
  let isLost = false;
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
      // While the server is away one is on its way.
      if (isRenewing) return;
      isRenewing = true;
      try {
        if ((await extend()) === 0) lose();
      } finally {
        isRenewing = false;
      }
    },
    stop: () => stopping.abort(),
  };
}

/** How long what was told to stop may take to do so, in milliseconds. */
export const mostStopping = 2000;

/** Plays a rollout. If it has to stop, no longer is waited for it than that: a tool may not look at its signal. */
export async function playUntil(play: Play, rollout: Rollout, signal: AbortSignal): Promise<Played> {
  let give = (): void => undefined;
  const late = new Promise<Played>((resolve) => {
    const cancelled: Played = {
      fields: {},
      session: rollout.session,
      failure: { kind: "internal", reason: "cancelled" },
    };
    give = () => setTimeout(() => resolve(cancelled), mostStopping).unref();
    signal.addEventListener("abort", give, { once: true });
  });
  try {
    return await Promise.race([play(rollout, signal), late]);
  } finally {
    signal.removeEventListener("abort", give);
  }
}

/** Waits for something, and no longer than that. */
export async function orAfter(work: Promise<unknown>, milliseconds: number): Promise<void> {
  const over = new AbortController();
  const quietly = work.then(
    () => undefined,
    () => undefined,
  );
  await Promise.race([quietly, delay(milliseconds, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
}
